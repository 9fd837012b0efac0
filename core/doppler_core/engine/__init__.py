"""Engines: requests in, results out, one worker thread owning the device."""
