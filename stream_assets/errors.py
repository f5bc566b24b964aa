"""Everything Stream raises on purpose. Each error carries its evidence as attributes and says what to do.

StreamError
├── ContractError        a contract that cannot be trusted: file, field, remedy
│   └── ViewError        a live view that cannot be
├── SettingsError        an environment variable that makes no sense
├── EngineError          Java, jars or the Spark server
├── DeliveryError        a landing zone that cannot be read safely
├── ServiceError         Kafka, Postgres, Kafka Connect or the schema registry
│   └── AwayError        it does not answer, and may the next time
├── LakeError            a table that refuses what was asked of it
│   └── MovedError       it has changed since rows that depend on it were computed
├── ChannelError         an alert that could not be handed over
└── InterruptedRunError  somebody stopped a run before it was done
"""


class StreamError(Exception):
    """Base of every error a person is meant to read. `exit_code` is what a command ends with that raises it."""

    exit_code = 1


class ContractError(StreamError):
    """A contract is refused. `file`, `field` and `remedy` locate and mend it."""

    def __init__(self, file: str, field: str, problem: str, remedy: str) -> None:
        super().__init__(f"{file}: {field}: {problem}. {remedy}")
        self.file, self.field, self.problem, self.remedy = file, field, problem, remedy


class ViewError(ContractError):
    """A live view is refused, as a contract would be."""


class SettingsError(StreamError):
    """A setting has a value Stream cannot work with."""


class EngineError(StreamError):
    """The Spark server cannot be started or reached."""


class DeliveryError(StreamError):
    """A delivery cannot be read without losing or inventing records."""


class ServiceError(StreamError):
    """A server that streams need cannot be started, reached or trusted."""


class AwayError(ServiceError):
    """A server that streams need does not answer. The next attempt may find it."""


class LakeError(StreamError):
    """A table operation was refused to protect what is already there."""


class MovedError(LakeError):
    """A table has changed since rows that depend on it were computed: they have to be computed anew."""


class ChannelError(StreamError):
    """A channel did not take an alert. Its text never holds an address or a password."""


class InterruptedRunError(StreamError):
    """A run was stopped from outside. What it had committed stays, and running it again goes on from there."""

    exit_code = 130
