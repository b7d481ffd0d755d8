//! A function for every device says so.

use typed_nccl::{Host, Result, Stream};

fn nothing<D>(_: &Stream<D>) {}

fn main() -> Result<()> {
    nothing(&Host::local()?.stream()?);
    Ok(())
}
