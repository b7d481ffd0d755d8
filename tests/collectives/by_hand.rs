//! Every collective once, with numbers that a reader can add up.

use typed_nccl::{Avg, Communicator, Device, Host, Max, Min, Prod, Rank, Result, Root, Sum};

use crate::ranks::spmd;

/// The value that each of three ranks starts with: 1, 2, 3 as floats.
fn own<D: Device>(comm: &Communicator<D>) -> f32 {
    comm.rank().index() as f32 + 1.0
}

#[test]
fn operators() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let x = comm.device().from_slice(&[own(&comm), -2.0 * own(&comm)])?;
        let mut y = comm.device().zeros::<f32>(2)?;
        comm.all_reduce(&x, &mut y, Sum)?;
        assert_eq!(y.to_vec()?, [6.0, -12.0]);
        comm.all_reduce(&x, &mut y, Prod)?;
        assert_eq!(y.to_vec()?, [6.0, -48.0]);
        comm.all_reduce(&x, &mut y, Max)?;
        assert_eq!(y.to_vec()?, [3.0, -2.0]);
        comm.all_reduce(&x, &mut y, Min)?;
        assert_eq!(y.to_vec()?, [1.0, -6.0]);
        comm.all_reduce(&x, &mut y, Avg)?;
        assert_eq!(y.to_vec()?, [2.0, -4.0]);
        comm.finish()
    })
}

#[test]
fn operators_of_ones_own() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let tenth = own(&comm) * 10.0;
        let (tens, on_device) = (comm.pre_mul_sum(tenth)?, comm.device().from_slice(&[tenth])?);
        let also_tens = comm.pre_mul_sum_device(on_device)?;
        let x = comm.device().from_slice(&[own(&comm)])?;
        let mut y = comm.device().zeros::<f32>(1)?;
        // 10 * 1 + 20 * 2 + 30 * 3.
        comm.all_reduce(&x, &mut y, &tens)?;
        assert_eq!(y.to_vec()?, [140.0]);
        comm.all_reduce(&x, &mut y, &also_tens)?;
        assert_eq!(y.to_vec()?, [140.0]);
        comm.finish()
    })
}

#[test]
fn two_buffers() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let (rank, one) = (comm.rank().index(), own(&comm));
        let is_root = rank == 1;
        let root = Rank::from_index(1);
        let x = comm.device().from_slice(&[one, 10.0 * one])?;
        let three = comm.device().from_slice(&[one, 10.0 * one, 100.0 * one])?;
        let mut y = comm.device().zeros::<f32>(2)?;
        let mut single = comm.device().zeros::<f32>(1)?;
        let mut all = comm.device().zeros::<f32>(6)?;
        let mut exchanged = comm.device().zeros::<f32>(3)?;

        comm.all_reduce(&x, &mut y, Sum)?;
        assert_eq!(y.to_vec()?, [6.0, 60.0]);
        comm.broadcast(if is_root { Root::Here(&x) } else { Root::There(root) }, &mut y)?;
        assert_eq!(y.to_vec()?, [2.0, 20.0]);
        let into = if is_root { Root::Here(&mut y) } else { Root::There(root) };
        comm.reduce_into(&x, into, Sum)?;
        assert_eq!(y.to_vec()?, if is_root { [6.0, 60.0] } else { [2.0, 20.0] });
        let reduced = comm.reduce(&x, Max, root)?;
        assert_eq!(reduced.map(|it| it.to_vec()).transpose()?, is_root.then(|| vec![3.0, 30.0]));
        comm.all_gather(&x, &mut all)?;
        assert_eq!(all.to_vec()?, [1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
        comm.reduce_scatter(&three, &mut single, Sum)?;
        assert_eq!(single.to_vec()?, [[6.0, 60.0, 600.0][rank]]);
        comm.all_to_all(&three, &mut exchanged)?;
        assert_eq!(
            exchanged.to_vec()?,
            [1.0, 2.0, 3.0].map(|from| from * [1.0, 10.0, 100.0][rank])
        );
        let gathered = comm.gather(&x, root)?;
        let wanted = vec![1.0, 10.0, 2.0, 20.0, 3.0, 30.0];
        assert_eq!(gathered.map(|it| it.to_vec()).transpose()?, is_root.then(|| wanted.clone()));
        let mut all = comm.device().zeros::<f32>(6)?;
        let into = if is_root { Root::Here(&mut all) } else { Root::There(root) };
        comm.gather_into(&x, into)?;
        assert_eq!(all.to_vec()?, if is_root { wanted } else { vec![0.0; 6] });
        let from = if is_root { Root::Here(&three) } else { Root::There(root) };
        comm.scatter(from, &mut single)?;
        assert_eq!(single.to_vec()?, [[2.0, 20.0, 200.0][rank]]);
        comm.finish()
    })
}

#[test]
fn one_buffer() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let (rank, one) = (comm.rank().index(), own(&comm));
        let is_root = rank == 2;
        let three = || comm.device().from_slice(&[one, 10.0 * one, 100.0 * one]);

        let mut x = three()?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [6.0, 60.0, 600.0]);
        let mut x = three()?;
        comm.broadcast_in_place(&mut x, 2)?;
        assert_eq!(x.to_vec()?, [3.0, 30.0, 300.0]);
        let mut x = three()?;
        comm.reduce_in_place(&mut x, Sum, 2)?;
        if is_root {
            assert_eq!(x.to_vec()?, [6.0, 60.0, 600.0]);
        }
        // Each rank's own block is already in its place.
        let mut x = three()?;
        comm.all_gather_in_place(&mut x)?;
        assert_eq!(x.to_vec()?, [1.0, 20.0, 300.0]);
        let mut x = three()?;
        comm.reduce_scatter_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?[rank], [6.0, 60.0, 600.0][rank]);
        let mut x = three()?;
        match is_root {
            true => comm.gather_in_place(&mut x, 2)?,
            false => comm.gather_in_place(&mut x.slice_mut(0..1), 2)?,
        }
        assert_eq!(
            x.to_vec()?,
            if is_root { [1.0, 2.0, 300.0] } else { [one, 10.0 * one, 100.0 * one] }
        );
        let mut x = three()?;
        match is_root {
            true => comm.scatter_in_place(&mut x, 2)?,
            false => comm.scatter_in_place(&mut x.slice_mut(0..1), 2)?,
        }
        assert_eq!(x.to_vec()?[if is_root { 2 } else { 0 }], [3.0, 30.0, 300.0][rank]);
        comm.finish()
    })
}
