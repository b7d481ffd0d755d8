//! Element types as NCCL's numbers.

use nccl_sys::Function::{ncclAllGather, ncclAllReduce, ncclBroadcast};
use num_complex::Complex;
use typed_nccl::zerocopy::{FromBytes, Immutable, IntoBytes};
use typed_nccl::{
    AnyDevice, Avg, Bool, Communicator, Cuda, DType, DynBuffer, F8E4M3, F8E5M2, Max, Or, Plain,
    Prod, Result, Sum, bf16, f16,
};

use crate::common::{alone, assert_silent, clear};
use crate::scenario::{NEWEST, nccl, on, release};

fn sum_of<T: typed_nccl::Numeric>(comm: &Communicator<Cuda<AnyDevice>>) -> Result<i128> {
    let mut x = comm.device().zeros::<T>(3)?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let log = nccl().log();
    let call = log.last().expect("it was called");
    assert_eq!((call.function, call.int("count")), (ncclAllReduce, 3));
    Ok(call.int("datatype"))
}

#[test]
fn element_types() {
    on(NEWEST, || {
        let comm = alone()?;
        let found = [
            sum_of::<i8>(&comm)?,
            sum_of::<u8>(&comm)?,
            sum_of::<i32>(&comm)?,
            sum_of::<u32>(&comm)?,
            sum_of::<i64>(&comm)?,
            sum_of::<u64>(&comm)?,
            sum_of::<f16>(&comm)?,
            sum_of::<f32>(&comm)?,
            sum_of::<f64>(&comm)?,
            sum_of::<bf16>(&comm)?,
            sum_of::<F8E4M3>(&comm)?,
            sum_of::<F8E5M2>(&comm)?,
        ];
        assert_eq!(found, std::array::from_fn(|number| number as i128));
        comm.finish()
    });
}

/// Each type by its value: NCCL's number, and the size of an element.
#[test]
fn data_types_by_value() {
    on(NEWEST, || {
        let comm = alone()?;
        for (dtype, number, bytes) in [
            (DType::I8, 0, 1),
            (DType::U8, 1, 1),
            (DType::I32, 2, 4),
            (DType::U32, 3, 4),
            (DType::I64, 4, 8),
            (DType::U64, 5, 8),
            (DType::F16, 6, 2),
            (DType::F32, 7, 4),
            (DType::F64, 8, 8),
            (DType::Bf16, 9, 2),
            (DType::F8E4M3, 10, 1),
            (DType::F8E5M2, 11, 1),
        ] {
            let mut x = DynBuffer::zeros(comm.device(), dtype, 5)?;
            comm.all_reduce_in_place(&mut x, Max)?;
            let log = nccl().log();
            let call = log.last().expect("it was called");
            assert_eq!((call.function, call.int("count")), (ncclAllReduce, 5));
            assert_eq!((call.int("datatype"), dtype.size()), (number, bytes), "{dtype}");
            assert_eq!(dtype.nccl_number().map(i64::from), Some(number as i64), "{dtype}");
        }
        comm.finish()
    });
}

#[test]
fn element_types_of_an_old_release() {
    on(release("2.23.4"), || {
        let comm = alone()?;
        let mut x = comm.device().zeros::<F8E5M2>(3)?;
        clear();
        let outcome = comm.all_reduce_in_place(&mut x, Max);
        let what = "the data type f8e5m2 needs NCCL 2.24.3; 2.23.4 is loaded";
        let error = assert_error!(outcome, Unsupported, what);
        assert!(error.is_refusal() && comm.health().is_ok());
        assert_silent("what is refused");
        assert_eq!(sum_of::<bf16>(&comm)?, 9);
        comm.finish()
    });
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[zerocopy(crate = "typed_nccl::zerocopy")]
#[repr(C)]
struct Particle {
    at: [f32; 2],
    id: u32,
}

impl Plain for Particle {}

/// NCCL lacks them: they travel as bytes, and nothing that NCCL cannot reduce is sent.
#[test]
fn elements_that_nccl_lacks() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let particle = Particle { at: [1.0, 2.0], id: 3 };
        let x = comm.device().from_slice(&[particle; 5])?;
        let mut y = comm.device().zeros::<Particle>(5)?;
        comm.all_gather(&x, &mut y)?;
        let last = |function| {
            let log = nccl().log();
            let call = log.last().expect("it was called");
            assert_eq!(call.function, function);
            (call.int("datatype"), call.int("count"))
        };
        let log = nccl().log();
        let gather = log.last().expect("it was called");
        assert_eq!(gather.function, ncclAllGather);
        assert_eq!((gather.int("datatype"), gather.int("sendcount")), (1, 60));
        let mut shorts = comm.device().zeros::<i16>(4)?;
        comm.broadcast_in_place(&mut shorts, 0)?;
        assert_eq!(last(ncclBroadcast), (1, 8));
        let mut flags = comm.device().zeros::<Bool>(4)?;
        comm.broadcast_in_place(&mut flags, 0)?;
        assert_eq!(last(ncclBroadcast), (1, 4));

        let mut floats = comm.device().from_slice(&[1.5_f32, -0.0, f32::NAN, 1e-45])?;
        let mut halves = comm.device().zeros::<bf16>(4)?;
        comm.all_reduce_in_place(&mut floats, Sum)?;
        clear();
        // A kernel of this library adds exactly, and one rank has nobody to send to.
        comm.all_reduce_in_place(&mut floats, Sum.exact())?;
        let bits: Vec<u32> = floats.to_vec()?.into_iter().map(f32::to_bits).collect();
        assert_eq!(bits, [0x3fc0_0000, 0x8000_0000, 0x7fc0_0000, 1]);
        clear();
        let refused = [
            (comm.all_reduce_in_place(&mut shorts, Sum), "Sum of i16"),
            (comm.all_reduce_in_place(&mut flags, Or), "Or of bool"),
            (comm.all_reduce_in_place(&mut halves, Sum.in_f32()), "Sum.in_f32() of bf16"),
        ];
        for (outcome, what) in refused {
            let error = assert_error!(outcome, Unsupported, what, "`Host`");
            assert!(error.is_refusal() && comm.health().is_ok(), "{what}");
        }
        assert_silent("what NCCL lacks");
        let outcome = comm.pre_mul_sum(2_i16).map(drop);
        assert_error!(outcome, Unsupported, "PreMulSum of i16");
        assert_eq!(nccl().log().len(), 0);
        comm.finish()
    });
}

/// NCCL sums their parts, and moves them as bytes.
#[test]
fn complex_numbers_are_pairs_of_floats() {
    on(NEWEST, || {
        let comm = alone()?;
        let mut x = comm.device().from_slice(&[Complex::new(1.0_f32, 2.0); 5])?;
        let mut y = comm.device().zeros::<Complex<f64>>(5)?;
        let last = |function| {
            let log = nccl().log();
            let call = log.last().expect("it was called");
            assert_eq!(call.function, function);
            (call.int("datatype"), call.int("count"))
        };
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(last(ncclAllReduce), (7, 10));
        comm.all_reduce_in_place(&mut y, Avg)?;
        assert_eq!(last(ncclAllReduce), (8, 10));
        comm.broadcast_in_place(&mut y, 0)?;
        assert_eq!(last(ncclBroadcast), (1, 80));
        clear();
        let error = assert_error!(
            comm.all_reduce_in_place(&mut x, Prod),
            Unsupported,
            "Prod of complex<f32>",
            "`Host`"
        );
        assert!(error.is_refusal() && comm.health().is_ok());
        assert_silent("a product of complex numbers");
        comm.finish()
    });
}
