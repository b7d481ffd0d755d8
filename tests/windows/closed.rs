//! `close_all`: what it ends, on all ranks or on none.

use typed_nccl::{Error, Host, Requirements, Result, plans::barrier};

use crate::ranks::spmd;

use super::says;

/// All resources end, and the communicator stays.
#[test]
fn all_resources_are_closed_and_the_communicator_stays() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let peer = comm.ring(1);
        let (window, buffer) = (comm.window::<i64>(4)?, comm.device().zeros::<i64>(4)?);
        drop(comm.window::<i64>(4)?);
        let (registration, scale) = (comm.register_buffer(&buffer)?, comm.pre_mul_sum(2_i64)?);
        let api = comm.device_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new())?;
        comm.put_signal(window.slice(0..2), peer, window.at(2))?;
        comm.wait_signal(peer)?;
        assert!(window.is_valid() && registration.is_valid() && scale.is_valid());
        assert!(dev.is_valid() && dev.bytes().is_ok() && !window.user_ptr().is_null());
        comm.close_all()?;
        assert!(!window.is_valid() && !registration.is_valid() && !scale.is_valid());
        assert!(!dev.is_valid() && window.user_ptr().is_null());
        says(&dev.bytes().expect_err("it is closed"), &["device communicator"]);
        let mut x = comm.device().from_slice(&[1_i64])?;
        let error = comm.all_reduce_in_place(&mut x, &scale).expect_err("it is closed");
        says(&error, &["PreMulSum", "all resources", "were closed (at tests/windows/closed.rs"]);
        let error = comm.put_signal(&window, peer, window.at(0)).expect_err("it is closed");
        says(&error, &["window", "were closed (at tests/windows/closed.rs"]);
        let error = comm.deregister_buffer(registration).expect_err("it is closed");
        says(&error, &["buffer registration", "were closed"]);
        assert_eq!(comm.close(window)?.to_vec()?, [0; 4]);
        comm.close_dev_comm(dev)?;
        // Slots of the table are used again, by other values.
        let (window, scale) = (comm.window::<i64>(1)?, comm.pre_mul_sum(3_i64)?);
        comm.all_reduce_in_place(&mut x, &scale)?;
        assert_eq!(x.to_vec()?, [6]);
        comm.finish()?;
        assert!(!window.is_valid() && !scale.is_valid() && window.user_ptr().is_null());
        assert_eq!(window.to_vec()?, [0]);
        Ok(())
    })
}

#[test]
fn all_resources_are_closed_on_all_ranks_or_on_none() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (rank, mut window) = (comm.rank().index(), comm.window::<i64>(4)?);
        let error = match rank {
            0 => comm.barrier().expect_err("another call"),
            _ => comm.close_all().expect_err("another call"),
        };
        assert!(matches!(error, Error::ValueMismatch(_)), "{error}");
        assert!(window.is_valid());
        if rank == 0 {
            comm.stream().launch((&mut window,), |_, ()| panic!("a bug of a test's"))?;
        }
        let error = comm.close_all().expect_err("rank 0 has something to tell");
        if rank == 0 {
            says(&error, &["a bug of a test's"]);
        }
        assert!(window.is_valid());
        comm.close_all()?;
        comm.finish()
    })
}

/// A plan's own window ends too, and the plan says so.
#[test]
fn a_plan_whose_window_was_closed_is_refused() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut here = barrier::bind(&mut comm)?;
        here.run(&comm)?;
        comm.close_all()?;
        let error = here.run(&comm).expect_err("its window is closed");
        says(&error, &["window", "were closed (at tests/windows/closed.rs"]);
        let mut again = barrier::bind(&mut comm)?;
        again.run(&comm)?;
        comm.finish()
    })
}
