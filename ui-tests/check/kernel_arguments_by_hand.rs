//! What a launch takes as arguments is this library's to say.

use typed_nccl::kernel::ArgumentsOn;
use typed_nccl::{Device, Result, Stream, kernel};

kernel! {
    fn fill(a: f32, y: &mut [f32]);
    host {
        y.fill(a);
    }
}

fn run<D: Device, A: ArgumentsOn<D>>(stream: &Stream<D>, launch: kernel::Launch<fill, A, D>) -> Result<()>
where
    fill: kernel::RunsOn<D>,
{
    stream.run(launch)
}

fn main() {}
