//! NCCL from Rust, where misuse does not compile.
//!
//! ```
//! use typed_nccl::{Communicator, Device, Result, Sum, launch};
//!
//! fn main() -> Result<()> {
//!     launch!(hello)
//! }
//!
//! fn hello<D: Device>(comm: Communicator<D>) -> Result<()> {
//!     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 1024])?;
//!     comm.all_reduce_in_place(&mut x, Sum)?;
//!     println!("rank {} of {}: {}", comm.rank(), comm.size(), x.to_vec()?[0]);
//!     comm.finish()
//! }
//! ```
//!
//! * [`Communicator`]: the ranks that communicate, with its state in its type.
//! * [`Buffer`], [`Slice`], [`SliceMut`]: memory, with its element type and device in its type.
//! * [`Stream`]: a queue of work; `stream.launch` enqueues your own computation, and [`kernel!`]
//!   declares one for GPUs and the host.
//! * [`Communicator::group`], [`Window`], [`Graph`]: operations issued as one, memory that peers
//!   write, calls captured once.
//! * [`plan!`](plan!), [`plans`]: a schedule of communication, checked while it compiles.
//! * [`Clique`]: one thread with several devices; [`interop`]: the memory of other libraries.
//! * [`launch!`], [`spmd`], [`Seat::local`], [`Seat::from_env`]: ways to start a program's ranks.
//! * [`Error`]: failures that the compiler cannot rule out, each with a name, a place and a remedy.
//! * [`Communicator::recover`]: after a rank dies, the others continue with the same communicator.
//!
//! The [guide](https://github.com/typed-nccl/typed-nccl/blob/main/docs/guide/src/SUMMARY.md) begins
//! with a first program and ends with fifteen mistakes.
//!
//! Features: `cuda` (GPUs; on by default), `mpi` (ranks on the CPUs of several machines,
//! `Seat::mpi`), `num-complex` (its complex numbers as elements), `tracing` and `metrics`, and for
//! other libraries' memory `dlpack`, `ndarray`, `candle`, `candle-cuda`, `python`, `torch`, `cupy`
//! and `numpy`.
//!
//! Import by name. There is no prelude, since glob imports make rustc print full paths.

mod cart;
pub mod clique;
pub mod collectives;
pub mod communicator;
mod compute;
mod config;
mod control;
#[cfg(feature = "cuda")]
mod cuda;
mod derived;
pub mod device;
pub mod device_api;
mod device_comm;
mod doctor;
pub mod dynamic;
pub mod element;
mod entry;
mod exit;
pub mod graph;
pub mod group;
mod health;
mod host;
mod launcher;
mod lock;
pub mod memory;
mod metered;
#[cfg(feature = "cuda")]
mod nccl;
mod one_thread;
mod own_thread;
pub mod p2p;
mod quiet;
mod rank;
mod rate_limited;
mod reactor;
mod record;
pub mod reduce;
pub mod rma;
mod seat;
mod stamp;
pub mod stream;
mod trace;
mod unwind;
mod wait;
pub mod window;
mod world;

pub mod backend;
pub mod error;
pub mod interop;
pub mod kernel;
pub mod kernels;
pub mod plan;
pub mod plans;

pub use cart::Cart;
pub use clique::{
    Clique, ConfiguredClique, IndexedByNumber, Lane, LaneOp, LaneWindow, Lanes, OfLane, OfRank,
    OneRankPerThread, PerRank, SuspendedClique,
};
#[doc(hidden)]
pub use collectives::IntoRoot;
pub use collectives::Root;
pub use communicator::{
    AbortHandle, Aborted, Agreed, Algorithm, Algorithms, AsConfigured, AsksForAPart, Becoming,
    Builder, CallConfig, CanBecomeReady, CanConnect, CanEnqueue, CanGoOn, CanGrow, CanResume,
    CanShrink, CanSuspend, CaptureOrder, Change, CommConfig, Communicator, CountedTransfers,
    CtaPolicy, Ctas, DeviceGiven, Finalized, GinConnections, GinType, GraphUse, HasAbortHandle,
    HasMemory, Health, InOrder, Initializing, Late, LaunchOrder, Lost, MemoryStats, Mesh,
    Multicast, Network, NoDevice, NoSeat, On, OnDevice, Ordered, PerCall, Properties, Protocol,
    Ready, Recovery, Revoked, SeatGiven, Shared, SharedChild, SplitNumber, Standing, State,
    Stragglers, Suspended, Transfers, Uninit, Unnamed, Watch, Within, WithoutConfig, Work,
};
#[cfg(feature = "cuda")]
pub use config::LaunchEvent;
pub use control::{Invitation, UniqueId};
#[cfg(feature = "cuda")]
pub use cuda::{DeviceView, DeviceViewMut, RawStream};
#[cfg(feature = "cuda")]
pub use device::Cuda;
pub use device::{AnyDevice, At, Device, DeviceFamily, DeviceTag, Host, Local, Scoped};
#[cfg(feature = "cuda")]
pub use device_api::DevCommView;
pub use device_api::{
    AllToAll, AsksForTheNetwork, Barrier, Connection, Counted, DevComm, DeviceApi, DeviceRange,
    EveryNth, EveryRank, Gin, GinBarriers, Hybrid, Lsa, LsaBarriers, Multimem, OfRail, OfWorld,
    Peers, ReachesAll, Requirements, SameRail,
};
pub use dynamic::{
    DynBuffer, DynReduceOp, DynSlice, DynSliceMut, KnownType, Lifecycle, Raw, RawOp, RawPart,
    WindowFlags,
};
pub use element::foreign::*;
pub use element::{
    AnyElem, Bool, DType, DynElem, Element, Float, Integer, Logical, NarrowFloat, Numeric, Plain,
    PlainType, Primitive, zerocopy,
};
pub use entry::{Place, spmd};
pub use error::{Error, Failed, NcclVersion, Result};
pub use graph::{Capture, Graph, NeverInACapture};
pub use group::{Group, Grouped, WithConfig, group, try_group};
pub use host::mirror::{HostBarrier, HostDevComm, HostPart, HostWindow};
pub use memory::{
    Adopted, Buffer, Copying, DeviceMem, Elements, ForeignMemory, HasPlaces, Holds, Lend, LentAs,
    MemoryKind, NcclMem, Pinned, Readable, RecordRead, RecordWrite, SameDtype, Slice, SliceMut,
    WindowMemory, Writable,
};
#[cfg(feature = "cuda")]
pub use nccl::{library, params};
pub use p2p::{BlockLen, Blocks, Splits};
pub use rank::{AsRank, Rank};
pub use record::FlightRecord;
pub use reduce::{
    And, Avg, BitAnd, BitOr, BitXor, Exact, FixedScalar, InF32, Max, Min, Or, PreMulSum, Prod,
    ReduceOp, ReductionName, ScalarInMemory, SettableScalar, Sum,
};
pub use rma::{SignalSlot, Signals};
pub use seat::Seat;
pub use stream::{Mark, Operand, OperandOn, Operands, OperandsOn, Stream, TimedMark};
pub use window::{
    CftCounted, Endpoint, EndpointOf, Flagged, GinOnly, LocalOnly, LsaPointers, PutSource,
    Registration, RmaSource, RmaTarget, SharedWindow, Symmetric, SymmetricStrict, Team, TeamOf,
    Window, WindowKind, WindowPlace, WindowSlice,
};
pub use world::{Label, World};

/// Compiles and runs the examples of the README; the package `guide` does so for the guide's.
#[cfg(doctest)]
mod shown {
    #[doc = include_str!("../README.md")]
    mod readme {}
}

#[doc(hidden)]
pub use memory::{EveryOperation, TakeByValue};
#[doc(hidden)]
pub use one_thread::{
    AnotherThread, SeveralThreads, ShareBuffer, ShareCommunicator, ShareGraph, ShareStream,
    ShareWindow, UseView, UseWindowView,
};

#[doc(hidden)]
pub mod __private {
    pub mod doctor {
        pub use crate::doctor::{Launch, launch, refused_variables};
    }

    pub use typed_nccl_macros::plan;

    #[cfg(any(test, feature = "models"))]
    pub use crate::control::{Lived, Simulated, Thrown, nodes, simulate, throw};
    #[cfg(any(test, feature = "models"))]
    pub use crate::entry::one_rank;
    pub use crate::entry::{launch, launch_on_host};
}
