//! Data types.

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering::SeqCst;

use num_complex::Complex;
use typed_nccl::error::AdoptFault;
use typed_nccl::interop::dlpack::{
    self, DLManagedTensor, DLManagedTensorVersioned, DLTensor, Layout,
};
use typed_nccl::{Bool, DType, DynBuffer, Element, F8E4M3, F8E5M2, Primitive, bf16, f16};

use super::Dev;
use super::foreign::{Consumer, Foreign, Form, import, named, refused};

/// dlpack.h's name of each data type that NCCL has.
const TYPES: [(DType, (u8, u8)); 17] = [
    (DType::I8, (0, 8)),
    (DType::U8, (1, 8)),
    (DType::I32, (0, 32)),
    (DType::U32, (1, 32)),
    (DType::I64, (0, 64)),
    (DType::U64, (1, 64)),
    (DType::F16, (2, 16)),
    (DType::F32, (2, 32)),
    (DType::F64, (2, 64)),
    (DType::Bf16, (4, 16)),
    (DType::F8E4M3, (10, 8)),
    (DType::F8E5M2, (12, 8)),
    (DType::I16, (0, 16)),
    (DType::U16, (1, 16)),
    (DType::Bool, (6, 8)),
    (DType::ComplexF32, (5, 64)),
    (DType::ComplexF64, (5, 128)),
];

#[test]
fn every_data_type_comes_in() {
    let device = Dev::any(0).expect("a device");
    for (dtype, (code, bits)) in TYPES {
        let memory = vec![0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let count = 16 / dtype.size();
        let foreign = Foreign::new(named(code, bits, 1), &[count as i64], memory.clone());
        let (tensor, deleted) = import::<DLManagedTensorVersioned>(foreign);
        let tensor = tensor.expect("a type of NCCL's");
        assert_eq!((tensor.dtype(), tensor.len(), tensor.shape()), (dtype, count, &[count][..]));
        let buffer = tensor.on(&device).expect("on the host");
        assert_eq!(buffer.dtype(), dtype);
        assert_eq!(bytes(buffer), memory);
        assert_eq!(deleted.load(SeqCst), 1);
    }
}

/// The elements of a buffer, eight bytes each.
fn bytes<M>(buffer: DynBuffer<Dev, M>) -> Vec<u64> {
    macro_rules! of {
        ($($type:ty),+) => {
            match buffer.dtype() {
                $(<$type as Element>::DTYPE => {
                    let values = buffer.typed::<$type>().expect("its type").to_vec().expect("values");
                    let bytes = values.len() * size_of::<$type>();
                    // SAFETY: the values' bytes; each type is plain data.
                    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), bytes) };
                    bytes.chunks(8).map(|it| u64::from_le_bytes(it.try_into().expect("8"))).collect()
                })+
                other => panic!("{other}"),
            }
        };
    }
    of!(
        i8,
        u8,
        i32,
        u32,
        i64,
        u64,
        f16,
        f32,
        f64,
        bf16,
        F8E4M3,
        F8E5M2,
        i16,
        u16,
        Bool,
        Complex<f32>,
        Complex<f64>
    )
}

#[test]
fn what_nccl_has_no_type_for_is_named() {
    for (dtype, name) in [
        (named(5, 32, 1), "complex32"),
        (named(18, 32, 1), "bcomplex32"),
        (named(2, 32, 4), "f32 in 4 lanes"),
        (named(2, 32, 0), "f32 in 0 lanes"),
        (named(2, 8, 1), "f8"),
        (named(2, 128, 1), "f128"),
        (named(7, 8, 1), "float8_e3m4"),
        (named(8, 8, 1), "float8_e4m3 with infinities"),
        (named(11, 8, 1), "float8_e4m3fnuz"),
        (named(14, 8, 1), "float8_e8m0fnu"),
        (named(15, 6, 1), "float6_e2m3fn"),
        (named(17, 4, 1), "float4_e2m1fn"),
        (named(0, 4, 1), "i4"),
        (named(3, 64, 1), "type 3 of 64 bits"),
        (named(99, 7, 1), "type 99 of 7 bits"),
    ] {
        let (fault, text) = refused(Foreign::new(dtype, &[2], vec![0; 8]));
        assert!(matches!(fault, AdoptFault::NoSuchType { .. }), "{text}");
        assert!(text.contains(name), "{name}: {text}");
    }
}

#[test]
fn every_data_type_goes_out_and_comes_back() {
    fn round<T: Primitive, F: Form>(values: [T; 6], (code, bits): (u8, u8)) {
        let device = Dev::any(0).expect("a device");
        let x = device.from_slice(&values).expect("memory");
        let export = dlpack::export(x, &[2, 3], Layout::C).expect("six elements");
        let consumer = Consumer(export.to_raw::<F>().expect("nothing uses it"));
        let DLTensor { dtype, device: place, .. } = *consumer.tensor();
        assert_eq!((dtype.code, dtype.bits, dtype.lanes), (code, bits, 1));
        assert_eq!((place.device_type, place.device_id), (1, 0));
        assert_eq!((consumer.shape(), consumer.strides()), (&[2, 3][..], &[3, 1][..]));
        // SAFETY: six elements, as the tensor says.
        let theirs = unsafe { std::slice::from_raw_parts_mut(consumer.data().cast::<T>(), 6) };
        assert_eq!(theirs, values);
        theirs.reverse();
        let raw = ManuallyDrop::new(consumer).0;
        // SAFETY: the consumer does not use it any more.
        let tensor = unsafe { dlpack::import(raw) }.expect("what was exported");
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], Some(&[3, 1][..])));
        let back = tensor.on(&device).expect("the host's").typed::<T>().expect("its type");
        let mut reversed = values;
        reversed.reverse();
        assert_eq!(back.to_vec().expect("values"), reversed);
    }
    fn both<T: Primitive>(values: [T; 6], name: (u8, u8)) {
        assert!(TYPES.contains(&(T::DTYPE, name)));
        round::<T, DLManagedTensor>(values, name);
        round::<T, DLManagedTensorVersioned>(values, name);
    }
    both([1_i8, 2, 3, 4, 5, 6], (0, 8));
    both([1_u8, 2, 3, 4, 5, 6], (1, 8));
    both([1_i32, 2, 3, 4, 5, 6], (0, 32));
    both([1_u32, 2, 3, 4, 5, 6], (1, 32));
    both([1_i64, 2, 3, 4, 5, 6], (0, 64));
    both([1_u64, 2, 3, 4, 5, 6], (1, 64));
    both([1, 2, 3, 4, 5, 6].map(f16::from_bits), (2, 16));
    both([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 32));
    both([1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 64));
    both([1, 2, 3, 4, 5, 6].map(bf16::from_bits), (4, 16));
    both([1, 2, 3, 4, 5, 6].map(F8E4M3::from_bits), (10, 8));
    both([1, 2, 3, 4, 5, 6].map(F8E5M2::from_bits), (12, 8));
    both([-1_i16, 2, 3, 4, 5, i16::MIN], (0, 16));
    both([1_u16, 2, 3, 4, 5, u16::MAX], (1, 16));
    both([true, false, true, true, false, false].map(Bool::from), (6, 8));
}
