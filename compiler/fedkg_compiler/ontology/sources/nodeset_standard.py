"""Nodes of OPC UA's own namespace that companion specifications build upon: number to browse name (OPC 10000-6, annex A)."""

from __future__ import annotations

from fedkg_compiler.ontology.standard import XSD

UA = "http://opcfoundation.org/UA/"

_RUNS = {
    1: (
        "Boolean SByte Byte Int16 UInt16 Int32 UInt32 Int64 UInt64 Float Double String DateTime Guid ByteString XmlElement NodeId "
        "ExpandedNodeId StatusCode QualifiedName LocalizedText Structure DataValue BaseDataType DiagnosticInfo Number Integer UInteger "
        "Enumeration Image References NonHierarchicalReferences HierarchicalReferences HasChild Organizes HasEventSource "
        "HasModellingRule HasEncoding HasDescription HasTypeDefinition GeneratesEvent"
    ),
    44: "Aggregates HasSubtype HasProperty HasComponent HasNotifier HasOrderedComponent Decimal FromState ToState HasCause HasEffect",
    61: "FolderType BaseVariableType BaseDataVariableType",
    290: "Duration NumericRange Time Date UtcTime LocaleId Argument",
}
STANDARD: dict[int, str] = {
    start + i: name for start, names in _RUNS.items() for i, name in enumerate(names.split())
} | {
    58: "BaseObjectType",
    68: "PropertyType",
    69: "DataTypeDescriptionType",
    72: "DataTypeDictionaryType",
    75: "DataTypeSystemType",
    76: "DataTypeEncodingType",
    77: "ModellingRuleType",
    117: "HasSubStateMachine",
    884: "Range",
    887: "EUInformation",
    2041: "BaseEventType",
    2299: "StateMachineType",
    2307: "StateType",
    2309: "InitialStateType",
    2310: "TransitionType",
    2311: "TransitionEventType",
    2365: "DataItemType",
    2368: "AnalogItemType",
    2755: "StateVariableType",
    2760: "FiniteStateVariableType",
    2762: "TransitionVariableType",
    2767: "FiniteTransitionVariableType",
    2771: "FiniteStateMachineType",
    7594: "EnumValueType",
    11616: "NamespaceMetadataType",
}

DATATYPES: dict[str, str] = {
    name: XSD + word
    for name, word in {
        "Boolean": "boolean",
        "SByte": "byte",
        "Byte": "unsignedByte",
        "Int16": "short",
        "UInt16": "unsignedShort",
        "Int32": "int",
        "UInt32": "unsignedInt",
        "Int64": "long",
        "UInt64": "unsignedLong",
        "Integer": "integer",
        "UInteger": "nonNegativeInteger",
        "Float": "float",
        "Double": "double",
        "Decimal": "decimal",
        "String": "string",
        "LocalizedText": "string",
        "LocaleId": "string",
        "Guid": "string",
        "NumericRange": "string",
        "NodeId": "string",
        "ExpandedNodeId": "string",
        "QualifiedName": "string",
        "XmlElement": "string",
        "DateTime": "dateTime",
        "UtcTime": "dateTime",
        "Duration": "double",
        "ByteString": "base64Binary",
    }.items()
}
"""Data types of OPC UA whose values are literals, with the datatype that these have."""
