//! Check that this processor has the instructions that the program was compiled for.

/// The error message for missing instructions. Without this check, the program would end with an illegal
/// instruction.
pub fn complaint() -> Option<String> {
    let name = missing()?;
    Some(format!(
        "coscan was compiled for processors of x86-64-v3, and this one has no {name}: compile it with \
         RUSTFLAGS='-C target-cpu=x86-64'"
    ))
}

/// The first instruction set of x86-64-v3 that this processor lacks.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
fn missing() -> Option<&'static str> {
    use std::arch::x86_64::{__cpuid, CpuidResult};
    const NOTHING: CpuidResult = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };
    let leaf = |first: u32, number: u32| if number <= __cpuid(first).eax { __cpuid(number) } else { NOTHING };
    let (one, seven, extended) = (leaf(0, 1), leaf(0, 7), leaf(0x8000_0000, 0x8000_0001));
    let bits = [
        (one.ecx, 12, "FMA"),
        (one.ecx, 22, "MOVBE"),
        (one.ecx, 27, "OSXSAVE"),
        (one.ecx, 29, "F16C"),
        (seven.ebx, 3, "BMI1"),
        (seven.ebx, 5, "AVX2"),
        (seven.ebx, 8, "BMI2"),
        (extended.ecx, 5, "LZCNT"),
    ];
    bits.into_iter().find(|(register, bit, _)| register >> bit & 1 == 0).map(|(.., name)| name)
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
fn missing() -> Option<&'static str> {
    None
}
