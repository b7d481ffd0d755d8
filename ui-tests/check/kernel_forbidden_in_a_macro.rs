//! A word that a macro passes on is the word of who wrote it.

#![forbid(unsafe_code)]

use typed_nccl::{Host, Result, kernel};

macro_rules! filled {
    ($promise:ident $name:ident) => {
        kernel! {
            fn $name(a: f32, y: &mut [f32]);
            $promise cuda "if (threadIdx.x < y_len) y[threadIdx.x] = a;";
            host {
                y.fill(a);
            }
        }
    };
}

filled!(unsafe fill);

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut y = host.zeros(8)?;
    host.stream()?.run(fill(2.0, &mut y))
}
