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

mod call;
#[cfg(feature = "cuda")]
mod called;
mod deadlock;
mod device;
mod fatal;
mod other;
mod plan;
mod refusal;
mod report;
mod submission;
mod told;
mod unawaited;
mod window;

#[cfg(feature = "cuda")]
pub(crate) use called::{Called, CallsByRanks};
pub(crate) use told::{told, was_told};

pub use call::{Call, Operation};
pub use deadlock::Deadlock;
pub use device::{CudaFailed, NcclFailed, NoDriver, NoNccl, NoSuchDevice, NoWindow, Unsupported};
pub use fatal::{Aborted, InitFailed, PeerFailed, Timeout};
pub use other::Other;
pub use plan::{ArgumentFault, BadArgument, BadPlan, BadStep, BoundElsewhere, PlansDiffer};
pub use refusal::{
    BadGroups, BadLength, BadRange, LaunchedUnderLauncher, NoBuffer, NoMemory, NoSuchRank,
    NotReducible, OtherClique, OtherDType, OtherDevice, OutsideGroup, Overflow, SizeVariable,
    SplitsTooLong, TagTaken, WaitInLaunch, WrongCommunicator,
};
pub(crate) use report::Ranks;
pub use report::{Hazard, Mismatch, NoOrder, OtherUse, Panicked, Refused, ValueMismatch};
pub use submission::{BadSubmission, SubmissionFault};
pub use unawaited::{Surplus, Unawaited};
pub use window::{NoSuchSignal, OutsideWindow, SelfTransfer, TooManySignals, WindowsDiffer};

/// What went wrong. `Clone + Send + Sync + 'static`, two words. Its `Debug` is its message too, so that
/// a `main` which returns it ends with the sentence.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A buffer's length does not fit the operation.
    #[error("{0}")]
    BadLength(Box<BadLength>),
    /// Lists of ranks, or a grid, that do not divide the communicator.
    #[error("{0}")]
    BadGroups(Box<BadGroups>),
    /// A view reaches past its buffer.
    #[error("{0}")]
    BadRange(Box<BadRange>),
    /// A rank or root out of range.
    #[error("{0}")]
    NoSuchRank(Box<NoSuchRank>),
    /// A root that gave no buffer.
    #[error("{0}")]
    NoBuffer(Box<NoBuffer>),
    /// A count that does not fit into memory.
    #[error("{0}")]
    Overflow(Box<Overflow>),
    /// Declared lengths that are more than a buffer can hold.
    #[error("{0}")]
    SplitsTooLong(Box<SplitsTooLong>),
    /// Memory or a stream of another device.
    #[error("{0}")]
    OtherDevice(Box<OtherDevice>),
    /// Data types that differ, known at run time only.
    #[error("{0}")]
    OtherDType(Box<OtherDType>),
    /// An average of integers, known at run time only.
    #[error("{0}")]
    NotReducible(Box<NotReducible>),
    /// Per-rank values of another clique.
    #[error("{0}")]
    OtherClique(Box<OtherClique>),
    /// A transfer where nothing is recorded.
    #[error("{0}")]
    OutsideGroup(Box<OutsideGroup>),
    /// A request that an [`Ordered`](crate::Ordered) communicator cannot take.
    #[error("{0}")]
    BadSubmission(Box<BadSubmission>),
    /// A resource of another communicator.
    #[error("{0}")]
    WrongCommunicator(Box<WrongCommunicator>),
    /// Memory could not be had.
    #[error("{0}")]
    NoMemory(Box<NoMemory>),
    /// A device tag that names another ordinal.
    #[error("{0}")]
    TagTaken(Box<TagTaken>),
    /// A host wait inside a closure that `Stream::launch` runs.
    #[error("{0}")]
    WaitInLaunch(Box<WaitInLaunch>),
    /// `TYPED_NCCL` does not read as a number of ranks.
    #[error("{0}")]
    SizeVariable(Box<SizeVariable>),
    /// Started by a launcher that this build cannot join.
    #[error("{0}")]
    LaunchedUnderLauncher(Box<LaunchedUnderLauncher>),
    /// The ranks' calls differ.
    #[error("{0}")]
    Mismatch(Box<Mismatch>),
    /// Another rank refused its part of an operation.
    #[error("{0}")]
    Refused(Box<Refused>),
    /// A put and another use of a window that nothing orders.
    #[error("{0}")]
    Hazard(Box<Hazard>),
    /// Signals that this rank never awaited, told by `finish`.
    #[error("{0}")]
    Unawaited(Box<Unawaited>),
    /// A put that ends past the window.
    #[error("{0}")]
    OutsideWindow(Box<OutsideWindow>),
    /// The ranks registered windows that differ.
    #[error("{0}")]
    WindowsDiffer(Box<WindowsDiffer>),
    /// A signal or context that the communicator was not configured with.
    #[error("{0}")]
    NoSuchSignal(Box<NoSuchSignal>),
    /// More signals to wait for than can be counted.
    #[error("{0}")]
    TooManySignals(Box<TooManySignals>),
    /// A transfer of a rank with itself whose other half is not in the same group.
    #[error("{0}")]
    SelfTransfer(Box<SelfTransfer>),
    /// A plan that cannot be bound as it is asked for.
    #[error("{0}")]
    BadPlan(Box<BadPlan>),
    /// The ranks bind plans that differ.
    #[error("{0}")]
    PlansDiffer(Box<PlansDiffer>),
    /// A bound plan is run with another communicator.
    #[error("{0}")]
    BoundElsewhere(Box<BoundElsewhere>),
    /// Memory that does not fit the plan that it is given to.
    #[error("{0}")]
    BadArgument(Box<BadArgument>),
    /// A compute step that asks for what its plan does not give it.
    #[error("{0}")]
    BadStep(Box<BadStep>),
    /// A closure given to `Stream::launch` panicked.
    #[error("{0}")]
    Panicked(Box<Panicked>),
    /// Host values that another rank sent do not read as the type asked for.
    #[error("{0}")]
    ValueMismatch(Box<ValueMismatch>),
    /// No CUDA driver.
    #[error("{0}")]
    NoDriver(Box<NoDriver>),
    /// A GPU that is not there.
    #[error("{0}")]
    NoSuchDevice(Box<NoSuchDevice>),
    /// No NCCL.
    #[error("{0}")]
    NoNccl(Box<NoNccl>),
    /// Something that the loaded NCCL, or the machine, does not offer.
    #[error("{0}")]
    Unsupported(Box<Unsupported>),
    /// A signal before the first window.
    #[error("{0}")]
    NoWindow(Box<NoWindow>),
    /// A call of CUDA's driver failed.
    #[error("{0}")]
    CudaFailed(Box<CudaFailed>),
    /// A call of NCCL's failed.
    #[error("{0}")]
    NcclFailed(Box<NcclFailed>),
    /// The communicator could not be made.
    #[error("{0}")]
    InitFailed(Box<InitFailed>),
    /// Ranks are gone.
    #[error("{0}")]
    PeerFailed(Box<PeerFailed>),
    /// A deadline passed.
    #[error("{0}")]
    Timeout(Box<Timeout>),
    /// Ranks wait for each other, or for what nobody is left to call.
    #[error("{0}")]
    Deadlock(Box<Deadlock>),
    /// Somebody asked for an abort.
    #[error("{0}")]
    Aborted(Box<Aborted>),
    /// An error of the program's own: [`Error::other`].
    #[error("{0}")]
    Other(#[source] Box<Other>),
}

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether it poisoned its communicator: later calls on it fail with the same cause.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::InitFailed(_)
                | Self::PeerFailed(_)
                | Self::Timeout(_)
                | Self::Deadlock(_)
                | Self::Aborted(_)
                | Self::CudaFailed(_)
                | Self::NcclFailed(_)
        )
    }

    /// Whether this rank refused its own call before anything was sent.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::BadLength(_)
                | Self::BadGroups(_)
                | Self::BadRange(_)
                | Self::NoSuchRank(_)
                | Self::NoBuffer(_)
                | Self::Overflow(_)
                | Self::SplitsTooLong(_)
                | Self::OtherDevice(_)
                | Self::OtherClique(_)
                | Self::OtherDType(_)
                | Self::NotReducible(_)
                | Self::OutsideGroup(_)
                | Self::BadSubmission(_)
                | Self::WrongCommunicator(_)
                | Self::OutsideWindow(_)
                | Self::NoSuchSignal(_)
                | Self::TooManySignals(_)
                | Self::SelfTransfer(_)
                | Self::WaitInLaunch(_)
                | Self::Unsupported(_)
                | Self::NoWindow(_)
                | Self::BadPlan(_)
                | Self::PlansDiffer(_)
                | Self::BoundElsewhere(_)
                | Self::BadArgument(_)
                | Self::BadStep(_)
        )
    }

    /// Whether another rank is the cause, so that the survivors may go on without it.
    pub fn is_peer_failure(&self) -> bool {
        matches!(self, Self::PeerFailed(_) | Self::Timeout(_))
    }
}

impl Error {
    /// Whether it tells what another error would: a refused group is one refusal.
    pub(crate) fn says_what(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Refused(a), Self::Refused(b)) => {
                a.by == b.by && a.reason.to_string() == b.reason.to_string()
            }
            _ => self.to_string() == other.to_string(),
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

impl<C> std::error::Error for Failed<C> {}

impl<C> From<Failed<C>> for Error {
    fn from(failed: Failed<C>) -> Self {
        failed.error
    }
}

/// A place in the caller's source, as `trainer.rs:41`.
pub(crate) type Site = &'static std::panic::Location<'static>;

/// Prints a [`Site`] without its column.
pub(crate) struct At(pub(crate) Site);

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.0.file(), self.0.line())
    }
}

static_assertions::assert_impl_all!(Error: Send, Sync, Clone, std::error::Error);
static_assertions::const_assert!(size_of::<Error>() <= 16);
