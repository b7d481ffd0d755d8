//! A double of CUDA's driver for tests: a library with the driver's functions, and its Rust side.
//!
//! It exports only the functions that the backend calls: memory, streams and events of simulated
//! devices. It records each call, tracks the handles that it hands out, and answers as instructed.
//! Device memory is host memory, so copied data can be inspected.
//!
//! ```no_run
//! use fake_cuda::{Code, Fake, File};
//!
//! let fake = File::install("target/tmp/an_example").load();
//! fake.fail("cuInit", Code::NO_DEVICE);
//! ```
//!
//! A caller may rely on the following:
//!
//! * A copy of the file is a separate library, with its own log, handles and instructions.
//! * Work on a stream is done before the call that enqueues it returns, unless the stream [is
//!   held](Fake::hold) or waits for an event of one that is. Then it is done in order once the
//!   stream is released. A held stream is busy, like one on which a kernel runs.
//! * The current context belongs to the thread. A call that needs one and has none fails.
//! * New memory is filled with rubbish. Freed memory is never reused, so using it is
//!   [misuse](Fake::misuse), and harmless.
//! * Freeing device memory waits until the device is idle, as the driver's own does.
//! * Memory that this library did not allocate has second addresses if a test [enables
//!   them](Fake::set_virtual). Nothing is behind them.
//! * Handles are looked up, never dereferenced.
//!
//! With `FAKE_CUDA_LINGER=1500` in the environment, the library's own kernels continue for that
//! many milliseconds after they were told to end.
//!
//! With `FAKE_CUDA_DEVICES=8` in the environment there are eight devices, of which
//! `CUDA_VISIBLE_DEVICES` may hide some, and **work takes time**: each stream has a thread that
//! does its work in order, after the call that enqueued it has returned. Then nothing is logged,
//! and host functions can be enqueued, on which the double of NCCL relies.
//!
//! Streams can capture graphs. Captured work is done at each launch, in an order that its streams
//! and events allow, and not in the order of enqueueing if another is possible. As with CUDA, a
//! capture is broken by a wait for work outside of it, a query of its streams, or an allocation by
//! its thread. [`Fake::live`] counts the graphs, and NCCL's double queries which of them exist.
//!
//! Kernels are PTX of a few instructions, which are executed one by one in their stream's order:
//! see `ptx`.
//!
//! It is also a double of NVRTC, which compiles no C++: see `exports::nvrtc`.
//!
//! The kernels of typed-nccl itself are implemented in Rust, with the memory of other ranks: see
//! `ours`.
//!
//! Deliberately missing: other kernels, and speed. The double trusts the owner's description of
//! memory that it did not allocate, such as NCCL's.

mod argument;
mod call;
mod code;
mod compute;
mod control;
mod export;
mod exports;
mod fake;
mod file;
pub mod gpus;
mod graph;
mod mapping;
mod memory;
mod ours;
pub mod ptx;
mod queue;
mod state;
mod worker;

pub use call::{Call, Garbled};
pub use code::Code;
pub use control::Live;
pub use fake::Fake;
pub use file::File;
