//! Views that a launch takes by value borrow as references do.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut x = host.zeros::<f32>(8)?;
    let [a, b] = x.parts_mut([4, 4]);
    host.stream()?.launch((a, b), |(x, y), _| y.fill(x[0]))
}
