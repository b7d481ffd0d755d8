//! What a kernel takes is written as its bodies have it.

use typed_nccl::kernel;

kernel! {
    fn one(dev: DevComm, x: *mut f32, y: &Buffer<f32>, z: &mut [u128], a: float);
    host {}
}

kernel! {
    fn other<D: Device>(dev: &DevComm<D>, w: &Window<f32, D>, x: &[T]);
    host {}
}

fn main() {}
