//! One group is issued by one backend.

use typed_nccl::{Buffer, Communicator, Cuda, Host, Result, Sum, group};

fn both(
    _: &mut Communicator<Host>,
    gpu: &mut Communicator<Cuda>,
    x: &mut Buffer<f32, Cuda>,
) -> Result<()> {
    group(gpu, |gpu| gpu.all_reduce_in_place(x, Sum))
}

fn main() {
    let _ = both;
}
