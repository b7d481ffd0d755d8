//! A device's ordinal is asked more than once: a device of the library's gives one answer.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    Host::any(0)?.zeros::<f32>(8).map(drop)
}
