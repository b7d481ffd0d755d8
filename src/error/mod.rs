//! Run-time errors and their messages.
//!
//! Each failure has a type of its own that says what was requested, what was found, where, and the
//! remedy; [`Error`] is one enum over them. Programs need to distinguish three groups:
//!
//! * **Refusals** ([`Error::is_refusal`]): this rank detected bad input before anything was sent.
//!   The communicator is unharmed, the call counts as this rank's turn, and the other ranks get
//!   [`Error::Refused`] with this rank's reason.
//! * **Reports** ([`Error::Mismatch`], [`Error::Refused`], [`Error::Panicked`]): an operation that
//!   was enqueued did not happen as requested. The next host wait returns them, once; outputs are
//!   unspecified and the communicator stays usable.
//! * **Fatal errors** ([`Error::is_fatal`]): a lost peer, an abort, a passed deadline, a deadlock,
//!   a failure of the device or of NCCL. They poison the communicator, and later calls fail
//!   immediately with the first fault.
//!
//! On GPUs a report is also fatal if NCCL cannot take the operation back: it poisons the
//! communicator.

mod adopt;
mod bind;
mod call;
#[cfg(feature = "cuda")]
mod called;
mod deadlock;
mod device;
mod device_comm;
mod fatal;
mod graph;
mod kernel;
pub(crate) mod last_call;
mod launch;
mod nccl;
mod numbered;
mod other;
mod plan;
mod refusal;
mod report;
mod reported;
mod site;
mod splits;
mod submission;
mod unawaited;
mod window;
mod words;

#[cfg(feature = "cuda")]
pub(crate) use called::{Called, CallsByRanks};
#[cfg(feature = "cuda")]
pub(crate) use reported::is_ours;
#[cfg(unix)]
pub(crate) use reported::listen;
pub(crate) use reported::{Heard, WorstReport, goes_on, ours, reported};

pub use adopt::{AdoptFault, NotAdoptable};
pub use bind::{BadPlan, BindFault, Wrong, WrongBecause};
pub(crate) use call::Signature;
pub use call::{Call, CollectiveName, Operation};
pub use deadlock::Deadlock;
pub use device::{
    BadKey, CudaFailed, NcclFailed, NoDriver, NoNccl, NoSuchDevice, NoWindow, Unsupported,
};
pub use device_comm::{DevCommsDiffer, NotRequired};
pub(crate) use fatal::Departed;
pub use fatal::{Abort, Deadline, Excluded, InitFailed, PeerFailed, Revocation, Timeout};
pub use graph::{CaptureFault, CapturesDiffer, MemoryInUse, NotCapturable, WaitInCapture};
pub use kernel::{BadKernel, KernelFault};
pub use launch::{BadLaunch, LaunchFault, Launched};
pub use nccl::{NcclResult, NcclVersion};
pub use other::Other;
pub use plan::{ArgumentFault, BadArgument, BadStep, BoundElsewhere, PlansDiffer, RanAlready};
pub use refusal::{
    BadColor, BadGrid, BadGroups, BadInvitation, BadLength, BadRange, LanesDiffer, NoBuffer,
    NoMemory, NoSuchRank, NotReducible, OtherClique, OtherDType, OtherDevice, Overflow,
    SizeVariable, Stale, StaleRank, TagTaken, WaitInLaunch, WrongCommunicator,
};
pub(crate) use report::Ranks;
pub use report::{Hazard, Mismatch, NoOrder, OtherUse, Panicked, Refused, ValueMismatch};
pub use site::Site;
pub use splits::{BadBlockLen, BadSplits, SplitsTooLong};
pub use submission::{BadSubmission, SubmissionFault};
pub use unawaited::{Surplus, Unawaited};
pub use window::{
    BadWindow, NoSuchSignal, NotRegistered, OutsideWindow, SelfTransfer, TooManySignals,
    WindowFault, WindowsDiffer,
};

/// How an error affects its communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Severity {
    /// This rank refused its own call before anything was sent.
    Refusal,
    /// An operation that was enqueued did not happen as requested.
    Report,
    /// It poisoned its communicator.
    Fatal,
    /// None of these: a missing resource, or the program's own error.
    Failure,
}

/// Generates the enum over all errors, each with its severity.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($it:pat) => $severity:expr,)*) => {
        /// A run-time error. `Clone + Send + Sync + 'static`, two words. Two errors are equal if
        /// they are of one kind with equal contents. `Debug` prints the message too, so that a
        /// `main` which returns the error ends with the sentence.
        #[derive(Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name(Box<$name>),)*
        }

        impl Error {
            /// The name of its kind.
            pub(crate) fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                }
            }

            fn severity(&self) -> Severity {
                use Severity::{Failure, Fatal, Refusal, Report};

                match self {
                    $(Self::$name($it) => $severity,)*
                }
            }
        }

        impl std::fmt::Display for Error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$name(it) => it.fmt(f),)*
                }
            }
        }

        $(impl From<$name> for Error {
            fn from(it: $name) -> Self {
                Self::$name(Box::new(it))
            }
        })*
    };
}

errors! {
    /// A buffer's length does not fit the operation.
    BadLength(_) => Refusal,
    /// Lists of ranks, or a grid, that do not divide the communicator.
    BadGroups(_) => Refusal,
    /// A colour of a split that is below 0.
    BadColor(_) => Refusal,
    /// A grid whose number of places differs from the number of ranks.
    BadGrid(_) => Refusal,
    /// A view reaches past its buffer.
    BadRange(_) => Refusal,
    /// A rank or root out of range.
    NoSuchRank(_) => Refusal,
    /// A root that passed no buffer.
    NoBuffer(_) => Refusal,
    /// A count that does not fit into memory.
    Overflow(_) => Refusal,
    /// A declared length below 0.
    BadBlockLen(_) => Refusal,
    /// Declared lengths that are not one for each rank.
    BadSplits(_) => Refusal,
    /// Declared lengths that exceed what a buffer can hold.
    SplitsTooLong(_) => Refusal,
    /// Memory or a stream of another device.
    OtherDevice(_) => Refusal,
    /// Foreign memory or a foreign stream that cannot be used.
    NotAdoptable(_) => Refusal,
    /// Data types that differ, detected at run time.
    OtherDType(_) => Refusal,
    /// An average of integers, detected at run time.
    NotReducible(_) => Refusal,
    /// Per-rank values of another clique.
    OtherClique(_) => Refusal,
    /// Clique ranks that recorded operations which cannot complete.
    LanesDiffer(_) => Refusal,
    /// A request that an [`Ordered`](crate::Ordered) communicator refuses.
    BadSubmission(_) => Refusal,
    /// A resource of another communicator.
    WrongCommunicator(_) => Refusal,
    /// A value that belongs to the communicator's ranks before they changed.
    Stale(_) => Refusal,
    /// An invitation that cannot be used.
    BadInvitation(_) => Refusal,
    /// A rank from before the communicator renumbered its ranks.
    StaleRank(_) => Refusal,
    /// Memory could not be allocated.
    NoMemory(_) => Failure,
    /// A device tag that names a different ordinal.
    TagTaken(_) => Failure,
    /// A host wait inside a closure that `Stream::launch` runs.
    WaitInLaunch(_) => Refusal,
    /// A host wait inside a capture's closure.
    WaitInCapture(_) => Refusal,
    /// A call that cannot be captured.
    NotCapturable(_) => Refusal,
    /// The ranks' captures do not match.
    CapturesDiffer(_) => Refusal,
    /// Memory of a graph is in use.
    MemoryInUse(_) => Failure,
    /// `TYPED_NCCL` cannot be parsed.
    SizeVariable(_) => Failure,
    /// The environment's launcher variables do not lead to a rank.
    BadLaunch(_) => Failure,
    /// The ranks' calls differ.
    Mismatch(it) => if it.ended { Fatal } else { Report },
    /// Another rank refused its part of an operation.
    Refused(_) => Report,
    /// A put and another use of a window without an order between them.
    Hazard(_) => Report,
    /// Signals that this rank never awaited, reported by `finish`.
    Unawaited(_) => Report,
    /// A put that ends past the window.
    OutsideWindow(_) => Refusal,
    /// The ranks registered different windows.
    WindowsDiffer(_) => Failure,
    /// A resource that a device communicator was not created with.
    NotRequired(_) => Refusal,
    /// The ranks created different device communicators.
    DevCommsDiffer(_) => Failure,
    /// A signal or context that the communicator was not configured with.
    NoSuchSignal(_) => Refusal,
    /// More signals to wait for than one wait can count.
    TooManySignals(_) => Refusal,
    /// A window whose memory a communicator cannot use as requested.
    BadWindow(_) => Refusal,
    /// A transfer of memory that the communicator does not accept.
    NotRegistered(_) => Refusal,
    /// A transfer of a rank with itself whose other half is not in the same group.
    SelfTransfer(_) => Refusal,
    /// A plan that cannot be bound as requested.
    BadPlan(_) => Refusal,
    /// The ranks bound different plans.
    PlansDiffer(_) => Refusal,
    /// A bound plan was run with another communicator.
    BoundElsewhere(_) => Refusal,
    /// A plan for one run was run twice.
    RanAlready(_) => Refusal,
    /// Memory that does not fit the plan it was passed to.
    BadArgument(_) => Refusal,
    /// A compute step that requests what its plan does not provide.
    BadStep(_) => Refusal,
    /// A closure given to `Stream::launch` panicked.
    Panicked(_) => Report,
    /// A host value from another rank does not decode as the requested type.
    ValueMismatch(_) => Failure,
    /// No usable CUDA driver.
    NoDriver(_) => Failure,
    /// A GPU that does not exist.
    NoSuchDevice(_) => Failure,
    /// NCCL could not be loaded.
    NoNccl(_) => Failure,
    /// A kernel that does not compile, or does not fit the GPU.
    BadKernel(_) => Refusal,
    /// An invalid encryption key.
    BadKey(_) => Refusal,
    /// A feature that the loaded NCCL or the machine lacks.
    Unsupported(_) => Refusal,
    /// A signal before the first window.
    NoWindow(_) => Refusal,
    /// A CUDA driver call failed.
    CudaFailed(_) => Fatal,
    /// An NCCL call failed.
    NcclFailed(_) => Fatal,
    /// The communicator could not be created.
    InitFailed(_) => Fatal,
    /// Ranks were lost.
    PeerFailed(_) => Fatal,
    /// A deadline passed.
    Timeout(_) => Fatal,
    /// Ranks wait for each other, or for a call that no thread is left to make.
    Deadlock(_) => Fatal,
    /// An abort was requested.
    Abort(_) => Fatal,
    /// The communicator was revoked to continue without some of its ranks.
    Revocation(_) => Fatal,
    /// The other ranks continue without this one.
    Excluded(_) => Fatal,
    /// The program's own error: [`Error::other`].
    Other(_) => Failure,
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Other(other) => other.source(),
            _ => None,
        }
    }
}

/// A result with [`Error`] as the default error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether it poisoned its communicator: later calls fail with the same error.
    pub fn is_fatal(&self) -> bool {
        self.severity() == Severity::Fatal
    }

    /// Whether this rank refused its own call before anything was sent.
    pub fn is_refusal(&self) -> bool {
        self.severity() == Severity::Refusal
    }

    /// Whether another rank is the cause, or a revocation:
    /// [`recover`](crate::Communicator::recover) then continues with the surviving ranks.
    pub fn is_peer_failure(&self) -> bool {
        matches!(self, Self::PeerFailed(_) | Self::Timeout(_) | Self::Revocation(_))
    }

    /// Whether both report the same event. A refused group is one refusal, whichever of its calls
    /// this rank finds refused first.
    pub(crate) fn is_again(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Refused(a), Self::Refused(b)) => a.by == b.by && a.reason == b.reason,
            _ => self == other,
        }
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A failed transition, with the value as it was before. `?` converts it to [`Error`] and drops the
/// value.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat, Symmetric};
/// # fn main() -> Result<()> {
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let x = comm.device().nccl_zeros::<f32>(4)?;
/// match comm.try_register_window_as(x, Symmetric) {
///     Ok(window) => drop(comm.close(window)?),
///     Err(failed) => println!("{}: {} elements are back", failed.error, failed.value.len()),
/// }
/// # comm.finish()
/// # }
/// ```
#[must_use = "the value is in it"]
pub struct Failed<C> {
    /// The reason.
    pub error: Error,
    /// The value, unchanged.
    pub value: C,
}

impl<C> std::fmt::Debug for Failed<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl<C> std::fmt::Display for Failed<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl<C> std::error::Error for Failed<C> {
    /// The source of its error, whose own message `Display` has printed.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<C> From<Failed<C>> for Error {
    fn from(failed: Failed<C>) -> Self {
        failed.error
    }
}

static_assertions::assert_impl_all!(Error: Send, Sync, Clone, std::error::Error);
static_assertions::const_assert!(size_of::<Error>() <= 16);

#[cfg(test)]
mod tests {
    use super::{BadRange, Call, Error, Failed, Mismatch, Operation, Refused, Site};
    use crate::{DType, Rank};

    fn refused(by: u32, operation: Operation, reason: &Error) -> Error {
        let call = Call::new(operation, DType::F32, 1, Site::caller());
        let reason = reason.clone();
        Refused { name: "World", call, by: Rank(by), reason }.into()
    }

    #[test]
    fn errors_of_one_text_may_differ() {
        let (first, second) = (Error::other("no"), Error::other("no"));
        assert!(first == first.clone() && first != second);
        // Errors from two closures on one line also have the same message.
        let site = Site::caller;
        let [a, b] =
            [site(), site()].map(|site| Error::from(BadRange { start: 0, end: 2, len: 1, site }));
        assert!(a.to_string() == b.to_string() && a != b);
    }

    /// An error and its sources, as `anyhow` prints them with `{:#}`.
    fn chain(error: &dyn std::error::Error) -> String {
        let causes = std::iter::successors(Some(error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }

    #[derive(Debug)]
    struct Unread(std::io::Error);

    impl std::fmt::Display for Unread {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the weights cannot be read")
        }
    }

    impl std::error::Error for Unread {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_text_of_the_programs_own_is_told_once() {
        let plain = Error::other("disk full");
        assert_eq!(chain(&plain), "disk full");
        let Error::Other(other) = &plain else { unreachable!("it is the program's own") };
        assert_eq!(chain(&**other), "disk full");
        // The source's own message comes first.
        let caused = Error::other(Unread(std::io::Error::other("disk full")));
        assert_eq!(chain(&caused), "the weights cannot be read: disk full");
        let Error::Other(other) = &caused else { unreachable!("it is the program's own") };
        assert!(other.source.is::<Unread>());
        let failed = Failed { error: caused, value: () };
        assert_eq!(chain(&failed), "the weights cannot be read: disk full");
    }

    #[test]
    fn a_refused_group_is_one_refusal() {
        let (reason, other) = (Error::other("no"), Error::other("no"));
        let told = refused(1, Operation::SendTo, &reason);
        assert!(told.is_again(&refused(1, Operation::RecvFrom, &reason)));
        assert!(!told.is_again(&refused(2, Operation::SendTo, &reason)));
        assert!(!told.is_again(&refused(1, Operation::SendTo, &other)));
    }

    #[test]
    fn a_mismatch_is_fatal_where_it_ends_the_communicator() {
        for ended in [false, true] {
            let (name, what, calls) = ("World", String::new(), Vec::new());
            let error = Error::from(Mismatch { name, what, calls, ended });
            assert!(error.is_fatal() == ended && !error.is_refusal());
        }
    }
}
