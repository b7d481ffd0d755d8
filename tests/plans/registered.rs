//! A plan on a communicator whose transfers take registered memory only.

use typed_nccl::{CommConfig, Error, Host, Result, Transfers, plan};

use crate::ranks::spmd;

plan! {
    /// There and back through the plan's own memory, and a sum along each row.
    mirror(rows: Ranks, cols: Ranks, len: usize) {
        comm row along cols;
        inout x: [f32; len];
        out y: [f32; len];
        local kept: [f32; len];
        send x to rank(size - 1 - rank) into kept;
        send kept to rank(rank) into y;
        row.all_reduce(y, sum);
    }
}

#[test]
fn it_is_bound_and_runs() -> Result<()> {
    spmd::<Host>(4, |place| {
        let config = CommConfig::builder().transfers(Transfers::Registered).build();
        let mut comm = place.init_with(config)?;
        let values = mirror::Params { rows: 2, cols: 2, len: 3 };
        let mut mirror = mirror::bind(&mut comm, values)?;
        let mut x = comm.device().nccl_zeros::<f32>(3)?;
        let mut y = comm.device().nccl_zeros::<f32>(3)?;
        x.copy_from(&[comm.rank().index() as f32; 3])?;
        let refused = mirror.run(&comm, mirror::Buffers { x: &mut x, y: &mut y });
        assert!(matches!(refused, Err(Error::NotRegistered(_))), "{refused:?}");
        let registered = [comm.register_buffer(&x)?, comm.register_buffer(&y)?];
        for _ in 0..3 {
            mirror.run(&comm, mirror::Buffers { x: &mut x, y: &mut y })?;
            let row = comm.rank().index() / 2;
            assert_eq!(y.to_vec()?, [[5.0; 3], [1.0; 3]][row]);
        }
        registered.into_iter().try_for_each(|buffer| comm.deregister_buffer(buffer))?;
        comm.finish()
    })
}
