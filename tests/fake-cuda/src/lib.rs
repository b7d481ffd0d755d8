//! A double of CUDA's driver for tests: a library that has the driver's functions, and this Rust side
//! of it.
//!
//! It exports the functions that the backend calls, no more: memory, streams and events of devices that
//! are not there. It writes each call down, keeps books of the handles that it gave, and answers what
//! it was told to. Device memory is the host's, so what is copied can be looked at.
//!
//! ```no_run
//! use fake_cuda::{Code, Fake, File};
//!
//! let fake = File::install("target/tmp/an_example").load();
//! fake.fail("cuInit", Code::NO_DEVICE);
//! ```
//!
//! A caller may rely on these:
//!
//! * A copy of the file is a library of its own: its log, its handles and what it was told are no other
//!   copy's.
//! * Work on a stream is done before the call that enqueues it returns, unless the stream
//!   [is held](Fake::hold) or waits for an event of one that is. Then it is done in order when the
//!   stream goes on. A held stream is busy, like one on which a kernel runs.
//! * The current context is the thread's, and who needs one and has none is told so.
//! * New memory is full of rubbish. Freed memory is never given out again, so its use is
//!   [misuse](Fake::misuse), and harms nothing.
//! * Freeing device memory waits until the device is idle, as the driver's own does.
//! * Memory that this library did not allocate has second addresses if a test
//!   [says so](Fake::set_virtual). Nothing is behind those.
//! * A handle is looked up, never followed.
//!
//! With `FAKE_CUDA_LINGER=1500` in the environment the library's own kernels go on for so many milliseconds
//! after they were told to end.
//! With `FAKE_CUDA_DEVICES=8` in the environment there are eight devices, of which `CUDA_VISIBLE_DEVICES`
//! can leave out some, and **work takes its time**: each stream has a thread that does its work in order,
//! after the call that enqueued it has returned. Then nothing is logged, and host functions can be
//! enqueued, which is how the double of NCCL works.
//!
//! Streams capture graphs: what is captured is done at each launch, in an order that its streams and events
//! allow, and not the one in which it was enqueued where they allow another. What breaks a capture breaks
//! it here: a wait for what is outside of it, a question to its streams, memory that its thread allocates.
//! [`Fake::live`] counts the graphs; NCCL's double asks which of them live.
//!
//! Kernels are PTX of a few instructions, which are done one by one in their stream's turn: see `ptx`.
//!
//! It is a double of NVRTC too, which compiles no C++: see `exports::nvrtc`.
//!
//! The kernels of typed-nccl itself are done in Rust, with the memory of other ranks: see `ours`.
//!
//! Deliberately not here: other kernels, and speed. Memory that this library did not allocate, such as
//! NCCL's, is taken for what its owner says it is.

mod argument;
mod call;
mod code;
mod compute;
mod control;
mod export;
mod exports;
mod fake;
mod file;
mod gpus;
mod graph;
mod mapping;
mod memory;
mod ours;
mod ptx;
mod queue;
mod state;
mod worker;

pub use call::Call;
pub use code::Code;
pub use control::Live;
pub use fake::Fake;
pub use file::File;
