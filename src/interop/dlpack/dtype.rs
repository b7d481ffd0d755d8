//! Data types, by DLPack's codes.

use dlpack_rs::ffi::{DLDataType, DLDataTypeCode as Code};

use crate::DType;

/// DLPack's name of a data type.
pub(super) const fn to_dlpack(dtype: DType) -> DLDataType {
    DLDataType { code: dtype.names().dlpack, bits: 8 * dtype.size() as u8, lanes: 1 }
}

/// The data type for a DLPack name, if NCCL has it.
pub(super) fn from_dlpack(found: DLDataType) -> Option<DType> {
    DType::ALL.into_iter().find(|&dtype| {
        let known = to_dlpack(dtype);
        (known.code, known.bits, known.lanes) == (found.code, found.bits, found.lanes)
    })
}

/// For messages: `bool`, `i16`, `complex64`, `f32x4`.
pub(super) fn name(found: DLDataType) -> String {
    let DLDataType { code, bits, lanes } = found;
    let one = match u32::from(code) {
        Code::kDLBool if bits == 8 => "bool".to_owned(),
        Code::kDLInt => format!("i{bits}"),
        Code::kDLUInt => format!("u{bits}"),
        Code::kDLFloat => format!("f{bits}"),
        Code::kDLBfloat => format!("bf{bits}"),
        Code::kDLComplex => format!("complex{bits}"),
        Code::kDLBcomplex => format!("bcomplex{bits}"),
        Code::kDLFloat8_e3m4 => "float8_e3m4".to_owned(),
        Code::kDLFloat8_e4m3 => "float8_e4m3 with infinities".to_owned(),
        Code::kDLFloat8_e4m3b11fnuz => "float8_e4m3b11fnuz".to_owned(),
        Code::kDLFloat8_e4m3fnuz => "float8_e4m3fnuz".to_owned(),
        Code::kDLFloat8_e5m2fnuz => "float8_e5m2fnuz".to_owned(),
        Code::kDLFloat8_e8m0fnu => "float8_e8m0fnu".to_owned(),
        Code::kDLFloat6_e2m3fn => "float6_e2m3fn".to_owned(),
        Code::kDLFloat6_e3m2fn => "float6_e3m2fn".to_owned(),
        Code::kDLFloat4_e2m1fn => "float4_e2m1fn".to_owned(),
        _ => format!("DLPack's type {code} of {bits} bits"),
    };
    if lanes == 1 { one } else { format!("{one} in {lanes} lanes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_dlpacks() {
        let known = [
            (DType::I32, Code::kDLInt),
            (DType::U64, Code::kDLUInt),
            (DType::F16, Code::kDLFloat),
            (DType::Bf16, Code::kDLBfloat),
            (DType::F8E4M3, Code::kDLFloat8_e4m3fn),
            (DType::F8E5M2, Code::kDLFloat8_e5m2),
        ];
        for (dtype, code) in known {
            assert_eq!(u32::from(to_dlpack(dtype).code), code, "{dtype}");
        }
    }
}
