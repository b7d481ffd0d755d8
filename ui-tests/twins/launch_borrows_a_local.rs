//! A launched closure runs later, so it owns what it captures.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.zeros::<f32>(8)?;
    let scale = 2.0;
    stream.launch(&mut x, move |x, _| x.iter_mut().for_each(|x| *x *= scale))
}
