//! One group is issued by one backend.

use typed_nccl::{Buffer, Communicator, Cuda, Host, Result, Sum, group};

fn both(
    host: &mut Communicator<Host>,
    gpu: &mut Communicator<Cuda>,
    x: &mut Buffer<f32, Cuda>,
) -> Result<()> {
    group((host, gpu), |(_, gpu)| gpu.all_reduce_in_place(x, Sum))
}

fn main() {
    let _ = both;
}
