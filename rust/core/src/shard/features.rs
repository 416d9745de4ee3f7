//! What Hugging Face `datasets` writes about columns into the schema's metadata.

use arrow_schema::Schema;
use serde_json::Value;

use super::blob_field::is_made_as_audio;

/// The key of that metadata.
pub(super) const KEY: &str = "huggingface";

/// The top-level columns that are features of type `Audio`, in the schema's order, with the sampling
/// rate in Hz that `datasets` decodes them to, if one is set.
///
/// Metadata that is missing or does not parse is only a hint less: then the one column that is made
/// as `datasets` makes audio, `struct<bytes: binary, path: string>`, is taken for it. Where several
/// are, they may be images or anything else.
pub fn audio_columns(schema: &Schema) -> Vec<(String, Option<u32>)> {
    let Some(features) = features(schema) else {
        let mut alike = schema.fields().iter().filter(|field| is_made_as_audio(field.data_type()));
        return match (alike.next(), alike.next()) {
            (Some(field), None) => vec![(field.name().clone(), None)],
            _ => Vec::new(),
        };
    };
    let audio = |name: &String| {
        let feature = features.get(name)?;
        if feature.get("_type")?.as_str()? != "Audio" {
            return None;
        }
        let rate = feature.get("sampling_rate").and_then(Value::as_u64);
        Some((name.clone(), rate.and_then(|rate| u32::try_from(rate).ok())))
    };
    schema.fields().iter().filter_map(|field| audio(field.name())).collect()
}

/// The schema's features by column, as JSON; `None` where they are missing, do not parse or name no
/// column.
fn features(schema: &Schema) -> Option<Value> {
    let metadata = serde_json::from_str::<Value>(schema.metadata().get(KEY)?).ok()?;
    let features = metadata.get("info")?.get("features")?;
    features.as_object().filter(|features| !features.is_empty())?;
    Some(features.clone())
}

/// The rate of the feature `Audio` at the dotted path of a field of structs, if one is set.
pub(super) fn rate_of_part(schema: &Schema, name: &str) -> Option<u32> {
    let features = features(schema)?;
    let field = schema.fields().iter().map(|field| field.name());
    let mut rates = field.filter_map(|field| {
        let mut feature = features.get(field)?;
        let mut rest = name.strip_prefix(field.as_str())?.strip_prefix('.')?;
        // A struct's names may have dots in them.
        while feature.get("_type").is_none_or(|of| !of.is_string()) {
            let fields = feature.as_object()?.iter();
            let (inner, behind) = fields
                .filter_map(|(field, inner)| Some((inner, rest.strip_prefix(field.as_str())?)))
                .find(|(_, behind)| behind.is_empty() || behind.starts_with('.'))?;
            (feature, rest) = (inner, behind.strip_prefix('.').unwrap_or(behind));
        }
        let is_audio = rest.is_empty() && feature.get("_type")?.as_str()? == "Audio";
        let rate = feature.get("sampling_rate").and_then(Value::as_u64).filter(|_| is_audio);
        rate.and_then(|rate| u32::try_from(rate).ok())
    });
    rates.next()
}

/// Whether the schema has features.
pub(super) fn has_features(schema: &Schema) -> bool {
    features(schema).is_some()
}

/// Calls `found` with the class names of each `ClassLabel` feature of the columns, at any depth: the
/// column, the dotted path, and the names.
pub(super) fn each_class_names(schema: &Schema, mut found: impl FnMut(&str, String, Vec<String>)) {
    let Some(features) = features(schema) else { return };
    for field in schema.fields() {
        if let Some(feature) = features.get(field.name()) {
            let column = field.name();
            add_class_names(feature, column.clone(), &mut |path, names| {
                found(column, path, names);
            });
        }
    }
}

/// A feature is an object with a `_type`, a list has its items' `feature` or is an array of one, and
/// any other object is a struct. The JSON parser bounds the depth.
fn add_class_names(feature: &Value, path: String, found: &mut dyn FnMut(String, Vec<String>)) {
    match feature {
        Value::Object(fields) => match fields.get("_type").and_then(Value::as_str) {
            Some("ClassLabel") => {
                if let Some(Value::Array(names)) = fields.get("names") {
                    let name = |name: &Value| name.as_str().map(str::to_owned);
                    if let Some(names) = names.iter().map(name).collect() {
                        found(path, names);
                    }
                }
            }
            Some(_) => {
                if let Some(items) = fields.get("feature") {
                    add_class_names(items, path, found);
                }
            }
            None => {
                for (name, field) in fields {
                    add_class_names(field, format!("{path}.{name}"), found);
                }
            }
        },
        Value::Array(items) => {
            for item in items {
                add_class_names(item, path.clone(), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use arrow_schema::{DataType, Field};

    fn schema(metadata: &str) -> Schema {
        let field = |name| Field::new(name, DataType::Binary, true);
        Schema::new_with_metadata(
            vec![field("label"), field("audio"), field("noise")],
            [(KEY.to_owned(), metadata.to_owned())],
        )
    }

    fn class_names(schema: &Schema) -> BTreeMap<String, Vec<String>> {
        let mut all = BTreeMap::new();
        each_class_names(schema, |_, path, names| drop(all.insert(path, names)));
        all
    }

    #[test]
    fn audio_features_are_found_with_their_rate() {
        let json = r#"{"info": {"features": {
            "noise": {"_type": "Audio", "sampling_rate": null},
            "removed": {"_type": "Audio"},
            "label": {"names": ["a"], "_type": "ClassLabel"},
            "audio": {"sampling_rate": 32000, "_type": "Audio"}}}}"#;
        let expected = vec![("audio".to_owned(), Some(32_000)), ("noise".to_owned(), None)];
        assert_eq!(audio_columns(&schema(json)), expected);
    }

    #[test]
    fn class_names_are_found_at_any_depth() {
        let json = r#"{"info": {"features": {
            "label": {"names": ["a", "b"], "_type": "ClassLabel"},
            "audio": {"_type": "Audio"},
            "noise": {"feature": {"names": ["x"], "_type": "ClassLabel"}, "_type": "List"},
            "event": {"kinds": [{"names": ["y"], "_type": "ClassLabel"}], "at": {"_type": "Value"}},
            "count": {"num_classes": 3, "_type": "ClassLabel"}}}}"#;
        let field = |name| Field::new(name, DataType::Binary, true);
        let columns = ["label", "audio", "noise", "event", "count"].map(field);
        let metadata = schema(json).metadata().clone();
        let schema = Schema::new_with_metadata(columns.to_vec(), metadata);
        let found = class_names(&schema);
        let of = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let expected =
            [("event.kinds", of(&["y"])), ("label", of(&["a", "b"])), ("noise", of(&["x"]))];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected.map(|(k, v)| (k.to_owned(), v)));
    }

    #[test]
    fn metadata_of_any_other_shape_gives_none() {
        let deep = "[".repeat(100_000);
        for json in ["", "{", "null", r#"{"info": []}"#, r#"{"info": {"features": 7}}"#, &deep] {
            assert_eq!(audio_columns(&schema(json)), vec![]);
            assert!(class_names(&schema(json)).is_empty());
        }
    }
}
