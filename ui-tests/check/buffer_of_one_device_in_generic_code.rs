//! A function over any world takes buffers on that world's device.

use typed_nccl::{Buffer, Communicator, Host, Result, Sum, World};

fn step<W: World>(
    comm: &Communicator<W>,
    x: &Buffer<f32, Host>,
    y: &mut Buffer<f32, W::Device>,
) -> Result<()> {
    comm.all_reduce(x, y, Sum)
}

fn main() {
    _ = step::<Host>;
}
