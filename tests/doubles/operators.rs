//! Operators made at run time: their scalars and lifetimes.

use std::thread;
use std::time::Duration;

use fake_nccl::Value;
use nccl_sys::Function::{ncclAllReduce, ncclRedOpCreatePreMulSum, ncclRedOpDestroy};
use nccl_sys::ncclResult_t;
use typed_nccl::{AnyDevice, Communicator, Cuda, F8E4M3, F8E5M2, Numeric, Result, bf16, f16};

use crate::common::{address, alone, calls, clear, count, handle, until};
use crate::scenario::{NEWEST, cuda, nccl, on};

type Comm = Communicator<Cuda<AnyDevice>>;

/// The scalar is on the host, and read at the call.
const HOST: i128 = 1;
/// It is on the device, and read when an operation runs.
const DEVICE: i128 = 0;

/// Makes an operator and uses it. Returns NCCL's arguments: the type, the scalar's residence, its
/// bytes.
fn scaled<T: Numeric>(comm: &mut Comm, scalar: T) -> Result<(i128, i128, Vec<u8>)> {
    clear();
    let operator = comm.pre_mul_sum(scalar)?;
    let mut x = comm.device().zeros::<T>(3)?;
    comm.all_reduce_in_place(&mut x, &operator)?;
    let made = calls(ncclRedOpCreatePreMulSum);
    let [made] = made.as_slice() else { panic!("{made:?}") };
    let used = calls(ncclAllReduce);
    assert!(used[0].int("op") > 4, "none of NCCL's own");
    assert_eq!(used[0].int("datatype"), made.int("datatype"));
    assert_eq!(used[0].pointer("comm"), made.pointer("comm"));
    Ok((made.int("datatype"), made.int("residence"), made.bytes("*scalar").to_vec()))
}

#[test]
fn scalars_are_one_element() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let comm = &mut comm;
        assert_eq!(scaled(comm, -3_i8)?, (0, HOST, vec![0xfd]));
        assert_eq!(scaled(comm, 200_u8)?, (1, HOST, vec![200]));
        assert_eq!(scaled(comm, -70_000_i32)?, (2, HOST, (-70_000_i32).to_ne_bytes().into()));
        assert_eq!(scaled(comm, u64::MAX - 1)?, (5, HOST, (u64::MAX - 1).to_ne_bytes().into()));
        let half = f16::from_f32(0.5);
        assert_eq!(scaled(comm, half)?, (6, HOST, half.to_bits().to_ne_bytes().into()));
        assert_eq!(scaled(comm, 1.5_f32)?, (7, HOST, 1.5_f32.to_ne_bytes().into()));
        assert_eq!(scaled(comm, -2.25_f64)?, (8, HOST, (-2.25_f64).to_ne_bytes().into()));
        let brain = bf16::from_f32(3.0);
        assert_eq!(scaled(comm, brain)?, (9, HOST, brain.to_bits().to_ne_bytes().into()));
        // A single rank cannot scale 8-bit floats.
        let (e4m3, e5m2) = (F8E4M3::from_f32(1.0), F8E5M2::from_f32(1.0));
        assert_error!(scaled(comm, e4m3), Unsupported, "PreMulSum of f8e4m3", "two ranks");
        assert_error!(scaled(comm, e5m2), Unsupported, "PreMulSum of f8e5m2", "two ranks");
        let made = calls(ncclRedOpCreatePreMulSum);
        assert_eq!(
            (made[0].int("datatype"), made[0].bytes("*scalar")),
            (11, &[e5m2.to_bits()][..])
        );
        assert_eq!(count(ncclAllReduce), 0);
        Ok(())
    });
}

#[test]
fn an_operator_has_nccls_number() {
    on(NEWEST, || {
        let mut comm: Comm = alone()?;
        let (one, other) = (comm.pre_mul_sum(2.0_f32)?, comm.pre_mul_sum(3.0_f32)?);
        let mut x = comm.device().zeros::<f32>(3)?;
        clear();
        comm.all_reduce_in_place(&mut x, &other)?;
        let number = comm.operator_number(&other)?.map(i128::from);
        assert_eq!(number, Some(calls(ncclAllReduce)[0].int("op")));
        assert_ne!(comm.operator_number(&one)?, comm.operator_number(&other)?);
        comm.finish()?;
        assert!(!one.is_valid());
        Ok(())
    });
}

#[test]
fn scalars_on_the_device_are_addresses() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let scalar = comm.device().from_slice(&[2.0_f32, 3.0])?;
        let start = address(comm.stream(), &scalar)?;
        clear();
        let operator = comm.pre_mul_sum_device(scalar)?;
        let made = calls(ncclRedOpCreatePreMulSum);
        assert_eq!((made[0].int("residence"), made[0].int("datatype")), (DEVICE, 7));
        assert_eq!(made[0].argument("scalar"), &Value::Pointer(start as usize));
        let mut x = comm.device().zeros::<f32>(3)?;
        cuda().hold(handle(comm.stream())?);
        comm.all_reduce_in_place(&mut x, &operator)?;
        drop(operator);
        // Kernels read the scalar when they run, after the operator is dropped.
        let _other = comm.pre_mul_sum(1.0_f32)?;
        assert_eq!(count(ncclRedOpDestroy), 1);
        let stream = comm.device().stream()?;
        let mut held = Vec::new();
        let mut is_given_out = || {
            // Held, so that the memory last freed is not returned repeatedly.
            held.extend(comm.device().zeros::<f32>(2));
            let last = held.last().map(|last| address(&stream, last));
            matches!(last, Some(Ok(given)) if given == start)
        };
        for _ in 0..300 {
            assert!(!is_given_out());
            thread::sleep(Duration::from_millis(5));
        }
        cuda().release(handle(comm.stream())?);
        until("it is given out", is_given_out);
        comm.finish()
    });
}

/// A scalar is set after earlier readers, on any stream, and before later ones.
#[test]
fn scalars_are_set_in_stream_order() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let scalar = comm.device().from_slice(&[2.0_f32])?;
        let at = address(comm.stream(), &scalar)?;
        let operator = comm.pre_mul_sum_device(scalar)?;
        let (mut x, stream) = (comm.device().zeros::<f32>(3)?, comm.device().stream()?);
        let between = |what: &str| {
            let waits = ["cuEventRecord", "cuStreamWaitEvent"];
            let called: Vec<_> = cuda().called();
            let found = waits.map(|name| called.iter().filter(|call| **call == name).count());
            assert_eq!(found, [1, 1], "{what}: {called:?}");
        };
        comm.set_scalar(&operator, 3.0)?;
        clear();
        comm.on(&stream).all_reduce_in_place(&mut x, &operator)?;
        between("a call on another stream");
        clear();
        comm.set_scalar(&operator, 4.0)?;
        between("a scalar that was read on another stream");
        let log = cuda().log();
        let set = log.iter().find(|call| call.function == "cuMemsetD32Async");
        let set = set.expect("it is set");
        assert_eq!((set.argument("dstDevice"), set.argument("N")), (at, 1));
        assert_eq!(set.argument("ui"), u64::from(4.0_f32.to_bits()));
        assert_eq!(count(ncclRedOpCreatePreMulSum), 0);
        comm.finish()
    });
}

/// A program that makes an operator in every step.
#[test]
fn scalars_do_not_add_up() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let mut x = comm.device().zeros::<f32>(3)?;
        let mut steps = || -> Result<usize> {
            for step in 0..20 {
                let scalar = comm.device().from_slice(&[step as f32; 1000])?;
                let operator = comm.pre_mul_sum_device(scalar)?;
                comm.all_reduce_in_place(&mut x, &operator)?;
            }
            Ok(cuda().live().pieces)
        };
        let mut most = steps()?;
        until("twenty steps take no more memory", || {
            // A background thread frees what is over.
            thread::sleep(Duration::from_millis(300));
            let before = most;
            most = steps().expect("it works");
            most == before
        });
        comm.finish()
    });
}

#[test]
fn an_operator_is_destroyed_when_its_place_is_used_again() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let (first, second) = (comm.pre_mul_sum(1.0_f32)?, comm.pre_mul_sum(2.0_f32)?);
        let mut x = comm.device().zeros::<f32>(3)?;
        comm.all_reduce_in_place(&mut x, &first)?;
        let number = calls(ncclAllReduce)[0].int("op");
        drop(first);
        assert_eq!((count(ncclRedOpDestroy), nccl().live().operators), (0, 2));
        let third = comm.pre_mul_sum(3.0_f32)?;
        let destroyed = calls(ncclRedOpDestroy);
        assert_eq!(destroyed.iter().map(|call| call.int("op")).collect::<Vec<_>>(), [number]);
        // Operators with live handles still exist.
        comm.all_reduce_in_place(&mut x, &second)?;
        comm.all_reduce_in_place(&mut x, &third)?;
        for _ in 0..20 {
            comm.pre_mul_sum(4.0_f32)?;
        }
        assert_eq!(nccl().live().operators, 3);
        comm.finish()?;
        assert_eq!(nccl().live().operators, 0);
        Ok(())
    });
}

#[test]
fn operators_that_cannot_be() {
    on(NEWEST, || {
        let (mut comm, other) = (alone()?, alone()?);
        let operator = comm.pre_mul_sum(1.0_f32)?;
        let mut x = comm.device().zeros::<f32>(3)?;
        clear();
        assert_error!(other.all_reduce_in_place(&mut x, &operator), WrongCommunicator, "PreMulSum");
        let none = comm.device().zeros::<f32>(0)?;
        assert_error!(comm.pre_mul_sum_device(none), BadLength, "a scalar");
        assert_eq!(count(ncclAllReduce) + count(ncclRedOpCreatePreMulSum), 0);
        nccl().fail(ncclRedOpCreatePreMulSum, ncclResult_t::ncclInvalidArgument);
        let what = "ncclRedOpCreatePreMulSum of NCCL 2.32.3 gave ncclInvalidArgument";
        assert_error!(comm.pre_mul_sum(1.0_f32), NcclFailed, what);
        assert_error!(comm.health(), NcclFailed, what);
        other.finish()
    });
}
