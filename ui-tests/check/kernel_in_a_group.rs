//! A group has operations of NCCL alone.

use typed_nccl::{Host, Result, Seat, Sum, kernel};

kernel! {
    fn add(a: f32, x: &[f32], y: &mut [f32]);
    unsafe cuda r#"
        size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
        if (i < y_len) y[i] += a * x[i];
    "#;
    host {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
    }
}

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (mut x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
    comm.group(|g| {
        g.all_reduce_in_place(&mut x, Sum)?;
        g.run(add(2.0, &x, &mut y))
    })?;
    comm.finish()
}
