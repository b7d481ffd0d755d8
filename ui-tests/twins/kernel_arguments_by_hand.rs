//! What a launch takes as arguments is this library's to say.

use typed_nccl::kernel::{Launch, value};
use typed_nccl::{Device, Host, Result, kernel};

kernel! {
    fn fill(a: f32, y: &mut [f32]);
    host {
        y.fill(a);
    }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut y = host.zeros::<f32>(8)?;
    let launch = Launch::<fill, _, _>::on_host((value(2.0_f32), y.slice_mut(0..8)));
    host.stream()?.run(launch)
}
