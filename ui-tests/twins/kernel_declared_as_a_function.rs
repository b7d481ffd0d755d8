//! What a kernel takes is written as its bodies have it.

use typed_nccl::kernel;

kernel! {
    fn one(dev: &DevComm, x: &mut [f32], y: &[f32], z: &mut [u32], a: f32);
    host {}
}

kernel! {
    fn other<T: Element>(dev: &DevComm, w: &Window<f32>, x: &[T]);
    host {}
}

fn main() {}
