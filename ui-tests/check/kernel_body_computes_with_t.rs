//! What the body in Rust does with its `T` stands with the bound.

use typed_nccl::{Host, Result, kernel};

kernel! {
    fn scale<T: Float>(by: T, x: &mut [T]);
    host {
        for x in x {
            *x *= by;
        }
    }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut x = host.from_slice(&[1.0, 2.0])?;
    host.stream()?.run(scale(2.0, &mut x))
}
