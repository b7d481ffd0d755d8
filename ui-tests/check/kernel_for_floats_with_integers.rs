//! A kernel for floating-point types does not take integers.

use typed_nccl::{Host, Result, kernel};

kernel! {
    fn clear_below<T: Float + PartialOrd>(least: T, x: &mut [T]);
    host {
        x.iter_mut().filter(|x| **x < least).for_each(|x| *x = T::default());
    }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut x = host.from_slice(&[1, 2, 3])?;
    host.stream()?.run(clear_below(2, &mut x))
}
