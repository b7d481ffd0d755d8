//! A launch has the arguments that its kernel declares.

use typed_nccl::kernel::Launch;
use typed_nccl::{Host, Result, kernel};

kernel! {
    fn fill(a: f32, y: &mut [f32]);
    host {
        y.fill(a);
    }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut y = host.zeros::<f32>(8)?;
    let arguments = (kernel::value(2.0_f32), y.slice_mut(0..8));
    // SAFETY: they are those that it declares.
    let launch = unsafe { Launch::<fill, _, _>::new(arguments) };
    host.stream()?.run(launch)
}
