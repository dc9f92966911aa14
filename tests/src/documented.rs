//! Examples of the documentation, as tests compile them.

/// The example with this kernel in `docs/device-library.md`. Panics if there is none.
pub fn documented(kernel: &str) -> String {
    block("```cuda\n", &format!("WARPBELL_KERNEL({kernel},"))
}

/// What stands there for a place in an example, and has this text. Panics if there is none.
pub fn documented_part(text: &str) -> String {
    block("```cuda part\n", text)
}

fn block(opening: &str, text: &str) -> String {
    let page = include_str!("../../docs/device-library.md");
    let mut blocks = page.split(opening).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains(text)).expect("an example").to_owned()
}
