//! Views that a launch takes by value borrow as references do.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut x = host.zeros::<f32>(8)?;
    host.stream()?.launch((x.slice(..5), x.slice_mut(4..)), |(x, y), _| y.fill(x[0]))
}
