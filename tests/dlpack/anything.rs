//! Arbitrary producers.

use std::sync::atomic::Ordering::SeqCst;

use proptest::prelude::*;
use typed_nccl::DType;
use typed_nccl::interop::dlpack::{DLDevice, DLManagedTensor, DLManagedTensorVersioned};

use super::foreign::{Foreign, Form, import, named};

prop_compose! {
    fn number()(number in prop_oneof![
        -2_i64..6,
        Just(i64::MAX), Just(i64::MIN), Just(i64::MAX / 2), Just(1 << 32),
    ]) -> i64 { number }
}

prop_compose! {
    fn anything()(
        (code, bits, lanes) in (
            0_u8..20,
            prop_oneof![Just(8_u8), Just(16), Just(32), Just(64), any::<u8>()],
            prop_oneof![9 => Just(1_u16), 1 => any::<u16>()],
        ),
        (device_type, device_id) in (prop_oneof![3 => Just(1_u32), 1 => 0_u32..22], -1..3_i32),
        axes in prop_oneof![8 => Just(None), 1 => Just(Some(-1)), 1 => Just(Some(i32::MIN))],
        shape in prop_oneof![
            8 => prop::collection::vec(number(), 0..5).prop_map(Some),
            1 => Just(None),
        ],
        strides in prop::option::of(prop::collection::vec(number(), 5)),
        data in prop_oneof![
            6 => Just(None),
            1 => Just(Some(0)),
            1 => Just(Some(usize::MAX)),
            1 => any::<usize>().prop_map(Some),
        ],
        offset in prop_oneof![6 => Just(0), 1 => 0..64_u64, 1 => any::<u64>()],
        flags in any::<u64>(),
        version in (prop_oneof![8 => Just(1), 1 => any::<u32>()], any::<u32>()),
    ) -> Foreign {
        Foreign {
            memory: vec![0; 1024],
            data,
            offset,
            dtype: named(code, bits, lanes),
            device: DLDevice { device_type, device_id },
            axes,
            shape,
            strides,
            flags,
            version,
            deletes: true,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..Default::default() })]

    /// Whatever a producer writes, nothing panics, its deleter is called, and accepted tensors are
    /// one piece of memory.
    #[test]
    fn no_description_panics(foreign in anything()) {
        fn of<F: Form>(foreign: Foreign) -> Result<(), TestCaseError> {
            let (outcome, deleted) = import::<F>(foreign);
            if let Ok(tensor) = outcome {
                prop_assert_eq!(deleted.load(SeqCst), 0);
                prop_assert_eq!(tensor.shape().iter().product::<usize>(), tensor.len());
                let bytes = tensor.len() * tensor.dtype().size();
                prop_assert!(tensor.address().checked_add(bytes).is_some());
                let align = match tensor.dtype() {
                    DType::ComplexF32 => 4,
                    DType::ComplexF64 => 8,
                    other => other.size(),
                };
                prop_assert_eq!(tensor.address() % align, 0);
            }
            prop_assert_eq!(deleted.load(SeqCst), 1);
            Ok(())
        }
        of::<DLManagedTensor>(foreign.clone())?;
        of::<DLManagedTensorVersioned>(foreign)?;
    }
}
