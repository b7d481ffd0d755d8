//! NCCL has no data type for `bool`.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let host = Host::local()?;
    host.zeros::<u8>(8).map(drop)
}
