//! A body has its arguments, and nothing of the function in which it stands.

use typed_nccl::{Host, Result, kernel};

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut x = host.from_slice(&[1.0, 2.0])?;
    let by = 2.0;
    kernel! {
        fn scale(by: f32, x: &mut [f32]);
        host {
            x.iter_mut().for_each(|x| *x *= by);
        }
    }
    host.stream()?.run(scale(by, &mut x))
}
