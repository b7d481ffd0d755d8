//! A GPU adopts memory of its own.

use typed_nccl::{Cuda, Host, Result};

fn adopt(gpu: &Cuda, memory: Vec<f32>) -> Result<usize> {
    Ok(gpu.adopt(memory)?.len())
}

fn main() {
    let _: (_, fn() -> Result<Host>) = (adopt, Host::local);
}
