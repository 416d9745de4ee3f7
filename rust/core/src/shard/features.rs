//! What Hugging Face `datasets` writes about columns into the schema's metadata.

use arrow_schema::Schema;
use serde_json::Value;

/// The key of that metadata.
const KEY: &str = "huggingface";

/// The top-level columns that are features of type `Audio`, in the schema's order, with the
/// sampling rate in Hz that they are to be heard at, if one is set.
///
/// Metadata that is missing or does not parse gives none: it is a hint, and nothing depends on it.
pub fn audio_columns(schema: &Schema) -> Vec<(String, Option<u32>)> {
    let Some(metadata) = schema.metadata().get(KEY) else { return Vec::new() };
    let Ok(metadata) = serde_json::from_str::<Value>(metadata) else { return Vec::new() };
    let features = metadata.get("info").and_then(|info| info.get("features"));
    let audio = |name: &String| {
        let feature = features?.get(name)?;
        if feature.get("_type")?.as_str()? != "Audio" {
            return None;
        }
        let rate = feature.get("sampling_rate").and_then(Value::as_u64);
        Some((name.clone(), rate.and_then(|rate| u32::try_from(rate).ok())))
    };
    schema.fields().iter().filter_map(|field| audio(field.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field};

    fn schema(metadata: &str) -> Schema {
        let field = |name| Field::new(name, DataType::Binary, true);
        Schema::new_with_metadata(
            vec![field("label"), field("audio"), field("noise")],
            [(KEY.to_owned(), metadata.to_owned())],
        )
    }

    #[test]
    fn audio_features_are_found_with_their_rate() {
        let json = r#"{"info": {"features": {
            "noise": {"_type": "Audio", "sampling_rate": null},
            "gone": {"_type": "Audio"},
            "label": {"names": ["a"], "_type": "ClassLabel"},
            "audio": {"sampling_rate": 32000, "_type": "Audio"}}}}"#;
        let expected = vec![("audio".to_owned(), Some(32_000)), ("noise".to_owned(), None)];
        assert_eq!(audio_columns(&schema(json)), expected);
    }

    #[test]
    fn metadata_of_any_other_shape_gives_none() {
        let deep = "[".repeat(100_000);
        for json in ["", "{", "null", r#"{"info": []}"#, r#"{"info": {"features": 7}}"#, &deep] {
            assert_eq!(audio_columns(&schema(json)), vec![]);
        }
    }
}
