//! Memory may hold other bytes than 0 and 1: truth values in it are `typed_nccl::Bool`.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let host = Host::local()?;
    host.zeros::<bool>(8).map(drop)
}
