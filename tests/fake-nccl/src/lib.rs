//! A double of libnccl for tests: a library with NCCL's functions, and its Rust side.
//!
//! The library exports every function of a released NCCL, with the types that `nccl-sys` declares.
//! It records each call, tracks the handles that it hands out, and answers as instructed. It needs
//! no GPU, and unless told otherwise it **moves no data**: a successful collective has checked its
//! arguments and done nothing.
//!
//! ```no_run
//! use fake_nccl::Fake;
//! use nccl_sys::{Function, ncclResult_t};
//!
//! let fake = Fake::new("target/tmp/an_example");
//! let api = fake.api().expect("the double loads");
//! fake.fail(Function::ncclGroupStart, ncclResult_t::ncclSystemError);
//! let start = api.ncclGroupStart().expect("the double has it");
//! // SAFETY: a group can be opened at any time.
//! assert_eq!(unsafe { start() }, ncclResult_t::ncclSystemError);
//! assert_eq!(fake.log()[1].function, Function::ncclGroupStart);
//! ```
//!
//! A caller may rely on the following:
//!
//! * A copy of the file is a separate library, with its own log, handles and instructions. So a
//!   test uses a copy, and tests run side by side.
//! * A copy of an older release ([`File::release`]) lacks the functions that came later, for the
//!   dynamic linker too, and reports that release's version.
//! * Handles are looked up, never dereferenced. One that is freed, of another copy, or not a handle
//!   at all results in [`ncclInvalidArgument`](nccl_sys::ncclResult_t::ncclInvalidArgument), and is
//!   [misuse](Fake::misuse). Other pointers are null or as NCCL's contract requires.
//! * A transfer of more than 16 KiB with memory that is registered on one side only is misuse, as
//!   NCCL hangs in it. (Between children, and where data moves, it goes unnoticed.)
//! * If the driver is the double of CUDA, a communicator with a call on a capturing stream refuses
//!   to end as long as its graph exists; NCCL would wait forever. A group is captured as a whole or
//!   not at all.
//! * If the driver is the double of CUDA, `ncclCommDestroy` waits until every stream of its device
//!   is idle, whoever uses them. Meanwhile no event can be recorded there, and no memory set. So it
//!   was measured on an H200 with NCCL 2.28.3.
//! * Calls of a non-blocking communicator are in progress until it was polled a few times. Polling
//!   it from two threads at once is misuse, as NCCL takes no lock there.
//! * Structs with a `size` are read and written no further than that.
//!
//! Deliberately missing: ranks that meet. Every call returns at once, whatever the other ranks do,
//! and a split's result beyond its arguments is [set](Fake::next_split) by the test. Operations in
//! a group are checked when they are called, not when it ends.
//!
//! With `FAKE_NCCL_MOVES=/dev/shm/a_folder` in the environment ranks do meet, in one process or in
//! several with the same folder, and **data moves**, on the streams of the double of CUDA. Then
//! only the creation of communicators is logged. A caller may rely on these properties, which were
//! measured on NCCL:
//!
//! * A communicator is made when all its ranks have come; two on one device are refused. From 2.22
//!   on its first collective blocks its thread until all ranks are in theirs, and up to 2.30 so
//!   does its first one-sided call.
//! * A killed rank is waited for, forever and without an error. So is one with a different call, or
//!   other counts. Different roots go unnoticed.
//! * `ncclCommRevoke` frees a thread and ends kernels, as does `ncclCommAbort`. Neither ends a
//!   stream's wait for a signal. In that case a revocation does not return, nor does the abort of
//!   the last rank in the process, nor does the process end.
//! * The last abort in a process frees the memory of all its ranks. Kernels of ranks that share a
//!   device write into it as they stop, if they are still in progress: the process is aborted then.
//! * A split waits for all ranks of the parent, and refuses one with work in progress (NCCL may
//!   wait forever). Children of a communicator whose configuration has `splitShare` live and end
//!   with it: an abort or a revocation of one affects all.
//! * Transfers of up to 64 KiB complete before the other side comes.
//! * A captured call is made and counted at each launch of the graph. Signals of graphs are
//!   separate from all others; before 2.32.3 the next one is raised only after the last one was
//!   awaited.
//! * Ranks with different `NCCL_HOSTID` have no windows and no signals between them.

mod argument;
mod books;
mod call;
mod capture;
mod control;
mod export;
mod exports;
mod fake;
mod file;
mod freeing;
mod moves;
mod pointer;
mod polls;
mod registered;
mod stamp;
mod state;

pub use call::{Call, Garbled, Number, Value};
pub use control::Live;
pub use fake::Fake;
pub use file::File;
