//! What can go wrong at run time, and how it reads.
//!
//! Each failure has a type of its own that says what was asked, what was found, where, and what
//! mends it; [`Error`] is their sum. Three groups matter to a program:
//!
//! * **Refusals** ([`Error::is_refusal`]): this rank saw bad input before anything was sent. The
//!   communicator is unharmed, the call counts as this rank's turn, and the other ranks get
//!   [`Error::Refused`] with this rank's reason.
//! * **Reports** ([`Error::Mismatch`], [`Error::Refused`], [`Error::Panicked`]): an operation that
//!   was enqueued did not happen as asked. They surface once, at the next host wait; outputs are
//!   unspecified and the communicator stays usable.
//! * **Fatal errors** ([`Error::is_fatal`]): a lost peer, an abort, a passed deadline, waits in a circle, a failure of
//!   the device or of NCCL. They poison the communicator, and later calls fail at once with the
//!   first cause.
//!
//! On GPUs a report is fatal too where NCCL cannot take an operation back: the communicator is
//! poisoned with it.

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
mod launch;
mod nccl;
mod numbered;
mod other;
mod plan;
mod refusal;
mod report;
mod site;
mod submission;
mod told;
mod unawaited;
mod window;
mod words;

#[cfg(feature = "cuda")]
pub(crate) use called::{Called, CallsByRanks};
#[cfg(all(feature = "cuda", unix))]
pub(crate) use told::listen;
pub(crate) use told::{Heard, Told, goes_on, ours, told};

pub use adopt::{AdoptFault, NotAdoptable};
pub use bind::{BadPlan, BindFault, Wrong, WrongBecause};
pub(crate) use call::Essence;
pub use call::{Call, CollectiveName, Operation};
pub use deadlock::Deadlock;
pub use device::{
    BadKey, CudaFailed, NcclFailed, NoDriver, NoNccl, NoSuchDevice, NoWindow, Unsupported,
};
pub use device_comm::{DevCommsDiffer, NotRequired};
pub use fatal::{Abort, Deadline, Excluded, InitFailed, PeerFailed, Revocation, Timeout};
pub use graph::{CaptureFault, CapturesDiffer, MemoryInUse, NotCapturable, WaitInCapture};
pub use kernel::{BadKernel, KernelFault};
pub use launch::{BadLaunch, LaunchFault, Launched};
pub use nccl::{NcclResult, NcclVersion};
pub use other::Other;
pub use plan::{ArgumentFault, BadArgument, BadStep, BoundElsewhere, PlansDiffer, RanAlready};
pub use refusal::{
    BadGrid, BadGroups, BadInvitation, BadLength, BadRange, LanesDiffer, NoBuffer, NoMemory,
    NoSuchRank, NotReducible, OtherClique, OtherDType, OtherDevice, Overflow, SizeVariable,
    SplitsTooLong, Stale, StaleRank, TagTaken, WaitInLaunch, WrongCommunicator,
};
pub(crate) use report::Ranks;
pub use report::{Hazard, Mismatch, NoOrder, OtherUse, Panicked, Refused, ValueMismatch};
pub use site::Site;
pub use submission::{BadSubmission, SubmissionFault};
pub use unawaited::{Surplus, Unawaited};
pub use window::{
    BadWindow, NoSuchSignal, NotRegistered, OutsideWindow, SelfTransfer, TooManySignals,
    WindowFault, WindowsDiffer,
};

/// How bad an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Severity {
    /// This rank refused its own call before anything was sent.
    Refusal,
    /// An operation that was enqueued did not happen as asked.
    Report,
    /// It poisoned its communicator.
    Fatal,
    /// None of these: something could not be had, or the program's own error.
    Failure,
}

/// The sum of all errors, each with how bad it is.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($it:pat) => $severity:expr,)*) => {
        /// What went wrong. `Clone + Send + Sync + 'static`, two words. Two are equal if they are of one
        /// kind and equal in all that they say. Its `Debug` is its message too, so that a `main` which
        /// returns it ends with the sentence.
        #[derive(Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name(Box<$name>),)*
        }

        impl Error {
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
    /// A grid with more or fewer places than there are ranks.
    BadGrid(_) => Refusal,
    /// A view reaches past its buffer.
    BadRange(_) => Refusal,
    /// A rank or root out of range.
    NoSuchRank(_) => Refusal,
    /// A root that gave no buffer.
    NoBuffer(_) => Refusal,
    /// A count that does not fit into memory.
    Overflow(_) => Refusal,
    /// Declared lengths that are more than a buffer can hold.
    SplitsTooLong(_) => Refusal,
    /// Memory or a stream of another device.
    OtherDevice(_) => Refusal,
    /// Memory or a stream of somebody else's that cannot be used.
    NotAdoptable(_) => Refusal,
    /// Data types that differ, known at run time only.
    OtherDType(_) => Refusal,
    /// An average of integers, known at run time only.
    NotReducible(_) => Refusal,
    /// Per-rank values of another clique.
    OtherClique(_) => Refusal,
    /// Ranks of a clique that record what does not come to its end.
    LanesDiffer(_) => Refusal,
    /// A request that an [`Ordered`](crate::Ordered) communicator cannot take.
    BadSubmission(_) => Refusal,
    /// A resource of another communicator.
    WrongCommunicator(_) => Refusal,
    /// Something that is of the communicator as it was before it went on with other ranks.
    Stale(_) => Refusal,
    /// An invitation that cannot be taken.
    BadInvitation(_) => Refusal,
    /// A rank of the communicator as it was before it went on without some of its ranks.
    StaleRank(_) => Refusal,
    /// Memory could not be had.
    NoMemory(_) => Failure,
    /// A device tag that names another ordinal.
    TagTaken(_) => Failure,
    /// A host wait inside a closure that `Stream::launch` runs.
    WaitInLaunch(_) => Refusal,
    /// A host wait inside the closure of a capture.
    WaitInCapture(_) => Refusal,
    /// A call that cannot be part of a graph.
    NotCapturable(_) => Refusal,
    /// The ranks captured what does not fit together.
    CapturesDiffer(_) => Refusal,
    /// Memory that a graph names is in use.
    MemoryInUse(_) => Failure,
    /// `TYPED_NCCL` does not read.
    SizeVariable(_) => Failure,
    /// What the environment says about launchers does not lead to a rank.
    BadLaunch(_) => Failure,
    /// The ranks' calls differ.
    Mismatch(it) => if it.ended { Fatal } else { Report },
    /// Another rank refused its part of an operation.
    Refused(_) => Report,
    /// A put and another use of a window that nothing orders.
    Hazard(_) => Report,
    /// Signals that this rank never awaited, told by `finish`.
    Unawaited(_) => Report,
    /// A put that ends past the window.
    OutsideWindow(_) => Refusal,
    /// The ranks registered windows that differ.
    WindowsDiffer(_) => Failure,
    /// Something of a device communicator that it was not made with.
    NotRequired(_) => Refusal,
    /// The ranks made device communicators that differ.
    DevCommsDiffer(_) => Failure,
    /// A signal or context that the communicator was not configured with.
    NoSuchSignal(_) => Refusal,
    /// More signals to wait for than can be counted.
    TooManySignals(_) => Refusal,
    /// A window's memory that a communicator cannot use as it is asked to.
    BadWindow(_) => Refusal,
    /// A transfer of memory that its communicator's transfers do not take.
    NotRegistered(_) => Refusal,
    /// A transfer of a rank with itself whose other half is not in the same group.
    SelfTransfer(_) => Refusal,
    /// A plan that cannot be bound as it is asked for.
    BadPlan(_) => Refusal,
    /// The ranks bind plans that differ.
    PlansDiffer(_) => Refusal,
    /// A bound plan is run with another communicator.
    BoundElsewhere(_) => Refusal,
    /// A plan for one run is run a second time.
    RanAlready(_) => Refusal,
    /// Memory that does not fit the plan that it is given to.
    BadArgument(_) => Refusal,
    /// A compute step that asks for what its plan does not give it.
    BadStep(_) => Refusal,
    /// A closure given to `Stream::launch` panicked.
    Panicked(_) => Report,
    /// Host values that another rank sent do not read as the type asked for.
    ValueMismatch(_) => Failure,
    /// No CUDA driver.
    NoDriver(_) => Failure,
    /// A GPU that is not there.
    NoSuchDevice(_) => Failure,
    /// No NCCL.
    NoNccl(_) => Failure,
    /// A kernel that does not compile, or does not fit the GPU.
    BadKernel(_) => Refusal,
    /// A key that is none.
    BadKey(_) => Refusal,
    /// Something that the loaded NCCL, or the machine, does not offer.
    Unsupported(_) => Refusal,
    /// A signal before the first window.
    NoWindow(_) => Refusal,
    /// A call of CUDA's driver failed.
    CudaFailed(_) => Fatal,
    /// A call of NCCL's failed.
    NcclFailed(_) => Fatal,
    /// The communicator could not be made.
    InitFailed(_) => Fatal,
    /// Ranks are gone.
    PeerFailed(_) => Fatal,
    /// A deadline passed.
    Timeout(_) => Fatal,
    /// Ranks wait for each other, or for what nobody is left to call.
    Deadlock(_) => Fatal,
    /// Somebody asked for an abort.
    Abort(_) => Fatal,
    /// Somebody wants to go on without some of the ranks.
    Revocation(_) => Fatal,
    /// The others go on without this rank.
    Excluded(_) => Fatal,
    /// An error of the program's own: [`Error::other`].
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

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether it poisoned its communicator: later calls on it fail with the same cause.
    pub fn is_fatal(&self) -> bool {
        self.severity() == Severity::Fatal
    }

    /// Whether this rank refused its own call before anything was sent.
    pub fn is_refusal(&self) -> bool {
        self.severity() == Severity::Refusal
    }

    /// Whether another rank is the cause, or a rank that wants to go on without another one: then
    /// [`recover`](crate::Communicator::recover) goes on with those who live.
    pub fn is_peer_failure(&self) -> bool {
        matches!(self, Self::PeerFailed(_) | Self::Timeout(_) | Self::Revocation(_))
    }

    /// Whether both tell of one thing: a refused group is one refusal, whichever of its calls this
    /// rank finds refused first.
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

/// A transition that failed, with the value as it was before. `?` turns it into [`Error`] and lets
/// the value go.
#[must_use = "the value is in it"]
pub struct Failed<C> {
    /// Why.
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
    /// What its error comes from. That error is this one, and its text is told already.
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
        // Two closures of one line read alike too.
        let site = Site::caller;
        let [a, b] =
            [site(), site()].map(|site| Error::from(BadRange { start: 0, end: 2, len: 1, site }));
        assert!(a.to_string() == b.to_string() && a != b);
    }

    /// What a program prints that prints an error and all that it comes from, as `anyhow` does with `{:#}`.
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
        // What it comes from is told as the program tells it.
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
