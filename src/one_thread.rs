//! Why values stay on one thread: the sentences that replace rustc's own.
//!
//! An explicit impl of `Send` or `Sync` with a bound that nothing meets replaces the automatic one,
//! so that the compiler reports the bound's message. The value is a parameter of the bound rather
//! than its `Self`, because rustc would otherwise prefer the standard library's message. The traits
//! are public under the crate's root, because rustc prints the paths of private ones. Nobody can
//! meet the bounds: an impl outside of this crate would be of its trait, for its type.

/// Several threads at once, which share nothing that serves one.
#[derive(Debug)]
pub struct SeveralThreads(());

/// A thread beside the one that has a value's owner.
#[derive(Debug)]
pub struct AnotherThread(());

/// Says why a communicator `C` is not `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{C}` cannot be shared between threads",
    label = "a communicator serves one thread at a time",
    note = "all ranks must make the same calls in the same order: move it to the one thread that uses it",
    note = "for calls from several threads, `Ordered::new(comm)?` keeps one order on all ranks, with `ordered.submit(key, |comm| ..)?`; a `Mutex` would not",
    note = "to end it from another thread, take an `abort_handle()`, which is `Sync`"
)]
pub trait ShareCommunicator<C> {}

/// Says why a buffer `B` is not `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{B}` cannot be shared between threads",
    label = "a buffer serves one thread at a time",
    note = "its uses are put in stream order as one thread enqueues them: move it to the thread that uses it (a `move` closure), or put it into a `Mutex`",
    note = "to let several threads read its values, copy them out first: `let values = x.to_vec()?;`"
)]
pub trait ShareBuffer<B> {}

/// Says why a window `V` is not `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{V}` cannot be shared between threads",
    label = "a window serves one thread at a time",
    note = "its uses are put in stream order as one thread enqueues them: move it, with its communicator, to the thread that uses it",
    note = "to let several threads read its values, copy them out first: `let values = x.to_vec()?;`"
)]
pub trait ShareWindow<V> {}

/// Says why a graph `G` is not `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{G}` cannot be shared between threads",
    label = "a graph is launched by one thread at a time",
    note = "all ranks launch their graphs in one order: move it, with its communicator, to the thread that launches it"
)]
pub trait ShareGraph<G> {}

/// Says why a stream `S` is not `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{S}` cannot be shared between threads",
    label = "a stream serves one thread at a time",
    note = "move it to the thread that uses it, or open another with `device.stream()`",
    note = "to order work between threads, send a `Mark`, which is `Sync`: `stream.mark()`"
)]
pub trait ShareStream<S> {}

/// Says why a view `V` is neither `Send` nor `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{V}` stays on its thread",
    label = "a view serves the thread that has its buffer",
    note = "the uses of a buffer are put in stream order as one thread enqueues them, and its views are uses of it",
    note = "move the buffer, and take the view on the other thread; for parts on several threads, allocate a buffer for each"
)]
pub trait UseView<V> {}

/// Says why a view `V` of a window is neither `Send` nor `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{V}` stays on its thread",
    label = "a view serves the thread that has its window",
    note = "the uses of a window are put in stream order as one thread enqueues them, and its views are uses of it",
    note = "move the window, with its communicator, and take the view on the other thread"
)]
pub trait UseWindowView<V> {}
