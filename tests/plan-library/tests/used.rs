//! A program that uses the library's plans.

use nccl::{Result, spmd};
use plan_library::{after_next, exchange, total};

#[test]
fn plans_of_another_crate_run() {
    spmd::<nccl::Host>(4, |place| -> Result<()> {
        let mut comm = place.init()?;
        let rank = comm.rank().index() as i64;
        assert_eq!(total(&mut comm, &[rank, 10 * rank])?, [6, 60]);
        assert_eq!(after_next(&mut comm, &[rank as f32])?, [((rank + 2) % 4) as f32]);
        let mut plan = exchange::bind::<i64, _>(&mut comm, exchange::Params { len: 1 })?;
        let mine = comm.device().from_slice(&[rank])?;
        let mut before = comm.device().zeros(1)?;
        plan.run(&comm, exchange::Buffers { mine: &mine, before: &mut before })?;
        assert_eq!(before.to_vec()?, [(rank + 3) % 4]);
        comm.finish()
    })
    .expect("the ranks run");
}
