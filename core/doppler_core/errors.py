"""Every error this project raises on purpose, as one tree.

    DopplerError
    ├── SettingsError (ValueError)           an argument or a variable has no valid meaning
    ├── ModelNotFoundError (LookupError)     a model name or path leads to nothing
    ├── ManifestError (ValueError)           the manifest is wrong, at a JSON path
    │   ├── ContradictionError               the manifest says one thing, the checkpoint another
    │   └── DigestError                      a kernel's text is not the one the manifest was made for
    ├── FileFormatError (ValueError)         a weight, config or tokenizer file is malformed
    │   └── IntegrityError                   a file is well formed, but not the one that was hashed
    ├── QuantizationError (ValueError)       values that can't be stored in the type asked for
    ├── DiskSpaceError (OSError)             not enough room for what would be written
    ├── PlanError (ValueError)               a manifest and a checkpoint do not make a plan
    ├── DeviceError (RuntimeError)           the GPU adapter can't do what the plan needs
    │   ├── NoAdapterError                   no GPU adapter of the kind asked for
    │   ├── LimitError                       a limit or the memory is too small, known before loading
    │   ├── ShaderError                      a kernel does not compile, or a dispatch is invalid
    │   └── DeviceLostError                  the device went away
    ├── InputError (ValueError)              a request's text, size or option can't be served
    │   ├── TextTooLongError                 more tokens than the model takes
    │   ├── UnsupportedModalityError         an image, a sound or a video for a model that takes none
    │   ├── NoChatFormatError                a conversation for a base model, which goes on with a text
    │   └── ChatTemplateError                a checkpoint's chat template is wrong, or refuses the conversation
    ├── OutputError (ValueError)             what the model made is not what was asked for
    ├── EngineClosedError (RuntimeError)     the engine was closed, or inherited through a fork
    ├── CancelledError (RuntimeError)        the request was cancelled
    └── PluginError (RuntimeError)           a plugin is missing, broken or ambiguous

A message says what was expected, what came, where, and what to do next.
"""


class DopplerError(Exception):
    """Root of every error raised on purpose by doppler_core and doppler_plugins."""


class SettingsError(DopplerError, ValueError):
    """An argument or an environment variable has no valid meaning."""


class ModelNotFoundError(DopplerError, LookupError):
    """A model name, path or repository leads to nothing that can be opened."""


class ManifestError(DopplerError, ValueError):
    """A manifest field is missing, unknown or out of range."""


class ContradictionError(ManifestError):
    """A value set in the manifest contradicts one present in the checkpoint's own files."""


class DigestError(ManifestError):
    """A kernel's digest is not the one pinned in the manifest."""


class FileFormatError(DopplerError, ValueError):
    """A file that came from outside is malformed. The message names the file."""


class IntegrityError(FileFormatError):
    """A file is well formed but its content is not what was hashed."""


class QuantizationError(DopplerError, ValueError):
    """Values (NaN, infinite, out of range) that can't be stored in the type asked for."""


class DiskSpaceError(DopplerError, OSError):
    """Not enough room on disk for what would be written."""


class PlanError(DopplerError, ValueError):
    """A manifest and a checkpoint do not make a plan."""


class DeviceError(DopplerError, RuntimeError):
    """The GPU adapter can't do what the plan needs."""


class NoAdapterError(DeviceError):
    """No GPU adapter of the kind asked for."""


class LimitError(DeviceError):
    """A limit of the GPU adapter, or the memory, is too small; found before anything is loaded."""


class ShaderError(DeviceError):
    """A kernel does not compile, or a dispatch is invalid."""


class DeviceLostError(DeviceError):
    """The device went away: driver reset, destroyed, out of memory."""


class InputError(DopplerError, ValueError):
    """A request's text, size or option can't be served by this model."""


class TextTooLongError(InputError):
    """A text has more tokens than the model takes.

    index: its place in the request; tokens: how many it has, prompt included, or at least has, as the message says; limit:
    how many the model takes. All three are None where whoever raised it did not say.
    """

    def __init__(
        self,
        message: str = "",
        *,
        index: int | None = None,
        tokens: int | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(message)
        self.index, self.tokens, self.limit = index, tokens, limit


class UnsupportedModalityError(InputError):
    """An image, a sound or a video for a model that takes none."""


class NoChatFormatError(InputError):
    """A conversation for a model that has no chat format: a base model, which goes on with a text.

    formats: the built-in chat formats that may be named for it.
    """

    def __init__(self, message: str = "", *, formats: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.formats = formats


class ChatTemplateError(InputError):
    """A checkpoint's own chat template can't be read, fails, or refuses the conversation."""


class OutputError(DopplerError, ValueError):
    """What the model made is not what was asked for: an object that was cut off, no call where one had to come."""


class EngineClosedError(DopplerError, RuntimeError):
    """The engine was closed, or is used in a forked child of the process that opened it."""


class CancelledError(DopplerError, RuntimeError):
    """The request was cancelled before it finished."""


class PluginError(DopplerError, RuntimeError):
    """A plugin is missing, broken, incompatible or ambiguous."""
