//! A function for every device says so.

use typed_nccl::{Device, Host, Result, Stream};

fn nothing<D: Device>(_: &Stream<D>) {}

fn main() -> Result<()> {
    nothing(&Host::local()?.stream()?);
    Ok(())
}
