"""`python -m doppler_plugins`: the command, where the script `doppler-plugins` is not on the path."""

from doppler_plugins.cli import main

if __name__ == "__main__":
    main()
