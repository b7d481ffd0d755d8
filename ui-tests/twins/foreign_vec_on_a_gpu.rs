//! The host adopts vectors.

use typed_nccl::{Host, Result};

fn adopt(host: &Host, memory: Vec<f32>) -> Result<usize> {
    Ok(host.adopt(memory)?.len())
}

fn main() {
    let _: (_, fn() -> Result<Host>) = (adopt, Host::local);
}
