//! Our errors as candle's, and theirs as ours.

use crate::error::Error;

/// For layers of candle that communicate: `?` in a `Module::forward`. candle keeps our error whole
/// in its one variant that does, [`Cuda`](candle_core::Error::Cuda), on the host too; its text is
/// ours. [`ours`] finds it, and `?` back into ours restores it.
impl From<Error> for candle_core::Error {
    fn from(ours: Error) -> Self {
        Self::Cuda(Box::new(ours)).bt()
    }
}

/// What it was if it was ours, whatever candle added; else [`Error::Other`].
impl From<candle_core::Error> for Error {
    fn from(theirs: candle_core::Error) -> Self {
        match ours(&theirs) {
            Some(ours) => ours.clone(),
            None => Self::other(theirs),
        }
    }
}

/// Our error within candle's, if that is its cause: under any path, context and backtrace.
///
/// ```
/// use typed_nccl::interop::candle;
/// use typed_nccl::{Communicator, Device, Host, Result, Seat};
///
/// fn forward<D: Device>(comm: &Communicator<D>) -> candle_core::Result<()> {
///     comm.peer(7)?;
///     Ok(())
/// }
///
/// fn main() -> Result<()> {
///     let comm = Seat::local(1).remove(0).init(Host::local()?)?;
///     let error = forward(&comm).expect_err("there is one rank");
///     assert!(candle::ours(&error).is_some_and(|error| error.is_refusal()));
///     comm.finish()
/// }
/// ```
pub fn ours(theirs: &candle_core::Error) -> Option<&Error> {
    use candle_core::Error as Theirs;

    match theirs {
        Theirs::Cuda(source) | Theirs::WrappedContext { wrapped: source, .. } => {
            let source = &**source;
            source.downcast_ref().or_else(|| ours(source.downcast_ref()?))
        }
        Theirs::Context { inner, .. }
        | Theirs::WithPath { inner, .. }
        | Theirs::WithBacktrace { inner, .. } => ours(inner),
        _ => None,
    }
}
