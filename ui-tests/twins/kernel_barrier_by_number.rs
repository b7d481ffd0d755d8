//! A barrier comes from the device communicator, which knows how many it has.

use typed_nccl::{Host, Requirements, Result, Seat, kernel};

kernel! {
    fn fill(dev: &DevComm, at: Barrier, x: &mut [f32]);
    host {
        at.sync();
        x.fill(dev.size() as f32);
    }
}

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let api = comm.device_api()?;
    let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(1))?;
    let mut x = comm.device().zeros::<f32>(8)?;
    comm.stream().run(fill(&dev, dev.lsa_barrier(0)?, &mut x))?;
    comm.close_dev_comm(dev)?;
    comm.finish()
}
