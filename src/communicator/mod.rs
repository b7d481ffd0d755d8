//! Communicators: the ranks that communicate, and their lifecycle.
//!
//! The lifecycle state is in the type. A [`Communicator<W>`] is `Ready`; operations require that
//! with a bound whose message says what to do otherwise. Transitions take the communicator by
//! value:
//!
//! ```text
//! builder ─ build ─> Uninit ─ connect ──────────────────────> Ready ─ finish ─> (Finalized)
//!                       └──── start ─> Initializing ─ ready ─────┘
//! Ready ─ revoke ─> Revoked ─ shrink ─> Ready       Ready ─ shrink ─> Ready
//! Ready ─ suspend ─> Suspended ─ resume ─> Ready     Suspended ─ shrink ─> Ready
//! every state ─ abort ─> Aborted
//! ```
//!
//! Not in the types: the health of a `Ready` communicator. A lost peer or a passed deadline poisons
//! it. Later calls then fail immediately with the first fault; it can be aborted, or
//! [`recover`](Communicator::recover)ed in place with the surviving ranks.

mod abort;
mod adopted_comm;
mod agree;
mod becoming;
mod builder;
mod close_all;
mod core;
mod flight;
mod grow;
mod hello;
mod issue;
mod leaving;
mod lifecycle;
mod numbered;
mod operators;
mod ordered;
mod ordered_task;
mod properties;
#[cfg(feature = "cuda")]
mod raw;
mod ready;
mod reaper;
mod recover;
mod resources;
mod shrink;
mod shrink_child;
mod split;
mod split_number;
mod split_request;
mod starting;
mod state;
mod suspend;
mod unconsumed;
mod values;
mod within;
mod work;

pub use abort::AbortHandle;
pub use becoming::Becoming;
pub use builder::{Builder, DeviceGiven, NoDevice, NoSeat, OnDevice, SeatGiven, Unnamed};
pub use ordered::Ordered;
pub use ready::On;
pub use split::{Mesh, SharedChild};
pub(crate) use split_number::color as color_of;
pub use split_number::{AsksForAPart, SplitNumber};
pub use state::{
    Aborted, CanBecomeReady, CanConnect, CanEnqueue, CanGoOn, CanGrow, CanResume, CanShrink,
    CanSuspend, Finalized, HasAbortHandle, HasMemory, Initializing, Ready, Revoked, Shared, State,
    Suspended, Uninit,
};
pub(crate) use suspend::given_up;
pub use values::{Agreed, InOrder};
pub use within::Within;
pub use work::Work;

pub(crate) use core::Core;
pub(crate) use issue::Together;
pub(crate) use leaving::{Failure, body, leave};
pub(crate) use ready::Live;
pub(crate) use resources::{Handle, Held, Key, Made, Registered, Resources, Scalar, SharedLens};

#[cfg(feature = "cuda")]
pub(crate) use crate::config::EARLY_SIGNALS;
pub use crate::config::{
    Algorithm, Algorithms, AsConfigured, CallConfig, CaptureOrder, CommConfig, CountedTransfers,
    CtaPolicy, Ctas, GinConnections, GinType, GraphUse, LaunchOrder, MemoryStats, Multicast,
    Network, PerCall, Properties, Protocol, Transfers, WithoutConfig,
};
pub(crate) use crate::config::{Setting, Value};
pub use crate::health::{Change, Health, Late, Lost, Recovery, Standing, Stragglers, Watch};
pub(crate) use crate::health::{Limit, Limits};
pub(crate) use crate::stamp::Maker;

use state::HoldsLive;

use crate::derived::debug;
use crate::error::Failed;
use crate::one_thread::{SeveralThreads, ShareCommunicator};
use crate::{Device, Rank, Result, World};

/// The backend of a world's device.
type Back<W> = <<W as World>::Device as Device>::Backend;

/// The ranks of world `W` that communicate, in lifecycle state `S`.
///
/// There is one per rank. It owns its stream and the resources created with it; buffers, streams
/// and operators are used through it. It is `Send` but not `Sync`: it may move between threads and
/// serves one at a time. A `Mutex` would not help, because it admits threads in an arbitrary order
/// that differs between ranks, so their calls would not match; [`Ordered`] keeps one order on all
/// ranks.
///
/// Dropping it without [`finish`](Communicator::finish) hands it to a background thread, which
/// finalises it within its deadline or aborts it; dropping it during a panic aborts it. The other
/// ranks get the reason, at the latest from their `finish`. Under [`spmd`](crate::spmd) and
/// `launch!` that is the error that the rank's body returns, or its panic, reported when the body
/// ends or after two seconds at most.
pub struct Communicator<W: World, S: State = Ready> {
    pub(crate) body: S::Body<W>,
}

/// # Asking
impl<W: World, S: State> Communicator<W, S> {
    pub(crate) fn of(body: S::Body<W>) -> Self {
        Self { body }
    }

    /// The communicator in its next state once `change` has succeeded, or this one.
    fn changed(
        mut self,
        change: impl FnOnce(&mut Live<W>) -> Result<()>,
    ) -> Result<Live<W>, Failed<Self>>
    where
        S: HoldsLive,
    {
        match change(S::held(&mut self.body)) {
            Ok(()) => Ok(S::into_live(self.body)),
            Err(error) => Err(Failed { error, value: self }),
        }
    }

    /// This process's rank in it.
    #[inline]
    pub fn rank(&self) -> Rank {
        S::place(&self.body).0
    }

    /// The number of ranks.
    #[inline]
    pub fn size(&self) -> usize {
        S::place(&self.body).1
    }
}

debug!(
    [W: World, S: State] Communicator<W, S>,
    self => "Communicator {} ({}), rank {} of {}", W::NAME, S::NAME, self.rank(), self.size()
);

// SAFETY: never applies: nothing implements `ShareCommunicator`, and no other crate can.
unsafe impl<W: World, S: State> Sync for Communicator<W, S> where
    SeveralThreads: ShareCommunicator<Self>
{
}

#[cfg(test)]
mod tests {
    use static_assertions::{assert_impl_all, assert_not_impl_any};

    use super::{AbortHandle, Communicator, Initializing, Ordered, Ready};
    use crate::plan::{Slices, SlicesMut};
    use crate::window::WindowSlice;
    use crate::{
        Buffer, DeviceMem, DynSlice, DynSliceMut, Host, Local, Mark, PreMulSum, Seat, Slice,
        SliceMut, Stream,
    };

    // A communicator may move between threads: the backend's part is `Send`, and the rest is plain
    // data and cells. Only one thread may use it at a time, because sequence numbers are cells.
    assert_impl_all!(Communicator<Host, Ready>: Send);
    assert_not_impl_any!(Communicator<Host, Ready>: Sync);
    assert_impl_all!(Communicator<Host, Initializing>: Send);
    // A buffer's header is written through `&Buffer`.
    assert_impl_all!(Buffer<f32, Host, DeviceMem>: Send);
    assert_not_impl_any!(Buffer<f32, Host, DeviceMem>: Sync);
    assert_impl_all!(Stream<Host<Local>>: Send);
    assert_not_impl_any!(Stream<Host<Local>>: Sync);
    assert_not_impl_any!(Slice<'static, f32, Host>: Send, Sync);
    assert_not_impl_any!(SliceMut<'static, f32, Host>: Send, Sync);
    assert_not_impl_any!(DynSlice<'static, Host>: Send, Sync);
    assert_not_impl_any!(DynSliceMut<'static, Host>: Send, Sync);
    assert_not_impl_any!(Slices<'static, f32, Host>: Send, Sync);
    assert_not_impl_any!(SlicesMut<'static, f32, Host>: Send, Sync);
    assert_not_impl_any!(WindowSlice<'static, f32, Host, crate::window::Symmetric>: Send, Sync);
    assert_impl_all!(Ordered<Host>: Send, Sync);
    assert_impl_all!(AbortHandle: Send, Sync, Clone);
    assert_impl_all!(Mark<Host>: Send, Sync, Clone);
    assert_impl_all!(Seat: Send, Sync);
    assert_not_impl_any!(Seat: Clone);
    assert_impl_all!(PreMulSum<f32, Host>: Send);

    // The same on GPUs: handles of CUDA and NCCL are not tied to a thread, and a communicator's
    // cells move with it.
    #[cfg(feature = "cuda")]
    mod gpu {
        use super::*;
        use crate::Cuda;

        assert_impl_all!(Communicator<Cuda, Ready>: Send);
        assert_not_impl_any!(Communicator<Cuda, Ready>: Sync);
        assert_impl_all!(Communicator<Cuda, Initializing>: Send);
        assert_impl_all!(Buffer<f32, Cuda>: Send);
        assert_not_impl_any!(Buffer<f32, Cuda>: Sync);
        assert_impl_all!(Stream<Cuda>: Send);
        assert_not_impl_any!(Stream<Cuda>: Sync);
        assert_not_impl_any!(Slice<'static, f32, Cuda>: Send, Sync);
        assert_impl_all!(Mark<Cuda>: Send, Sync, Clone);
    }
}
