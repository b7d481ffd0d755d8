//! A double of libnccl for tests: a library that has NCCL's functions, and this Rust side of it.
//!
//! The library exports every function that a released NCCL exports, of the types that `nccl-sys`
//! declares. It writes each call down, keeps books of the handles that it gave, and answers what it
//! was told to. It needs no GPU, and unless it is told to it **moves no data**: a collective that succeeds
//! has looked at its arguments and done nothing.
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
//! A caller may rely on these:
//!
//! * A copy of the file is a library of its own: its log, its handles and what it was told are no
//!   other copy's. So a test takes a copy, and tests run side by side.
//! * A copy of an older release ([`File::release`]) lacks the functions that came later, for the
//!   dynamic linker too, and says that release's version.
//! * A handle is looked up, never followed. One that is freed, of another copy or not a handle at all
//!   is [`ncclInvalidArgument`](nccl_sys::ncclResult_t::ncclInvalidArgument), and
//!   [misuse](Fake::misuse). Other pointers are null or what NCCL's contract says.
//! * A transfer of more than 16 KiB with memory that is registered on one side only is misuse: NCCL hangs
//!   in it. (Between children, and where data moves, it goes unnoticed.)
//! * Where the driver is the double of CUDA, a call on a stream that captures makes the communicator's end
//!   a refusal for as long as there is a graph of it, where NCCL's would wait for ever. A group is captured
//!   whole or not at all.
//! * Structs with a `size` are read and written no further than that.
//!
//! Deliberately not here: ranks that meet. Every call returns at once, whatever the other ranks do;
//! what a split depends on beside its arguments is [told](Fake::next_split). Operations in a group
//! are checked when they are called, not when it ends.
//!
//! With `FAKE_NCCL_MOVES=/dev/shm/a_folder` in the environment ranks do meet, in one process and in
//! several that have the same folder, and **data moves**, on the streams of the double of CUDA. Only
//! what makes communicators is logged then. A caller may rely on what was measured of NCCL:
//!
//! * A communicator is made when all its ranks have come; two on one device are refused. From 2.22 on
//!   its first collective holds up its thread until all ranks are in theirs, and so does, up to 2.30,
//!   its first one-sided call.
//! * A rank that is killed is waited for, for ever and without an error. So is one that calls something
//!   else, or other counts. Roots that differ go unnoticed.
//! * `ncclCommRevoke` frees a thread and ends kernels, `ncclCommAbort` too. Neither ends the wait of a
//!   stream for a signal; then a revocation does not return, nor does the abort of the last rank in
//!   the process, nor does the process end.
//! * A split waits for all ranks of the parent, and refuses one that has work under way (NCCL may wait for
//!   ever). Children of a communicator whose configuration has `splitShare` live and end with it: an
//!   abort or a revocation of one is that of all.
//! * Transfers of up to 64 KiB are over before the other side comes.
//! * What a stream captures is called at each launch of the graph, and counted then. Signals of graphs are
//!   apart from all others; before 2.32.3 the next one is raised when the last one was awaited.
//! * Ranks with another `NCCL_HOSTID` have no windows and no signals between them.

mod argument;
mod books;
mod call;
mod capture;
mod control;
mod export;
mod exports;
mod fake;
mod file;
mod moves;
mod pointer;
mod registered;
mod stamp;
mod state;

pub use call::{Call, Number, Value};
pub use control::Live;
pub use fake::Fake;
pub use file::File;
