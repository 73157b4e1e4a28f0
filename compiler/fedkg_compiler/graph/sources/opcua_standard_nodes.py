"""Nodes of OPC UA's own namespace that companion specifications build upon: number to browse name
(OPC 10000-6, annex A).
"""

from __future__ import annotations

from fedkg_compiler.graph.standard_vocabularies import XSD

UA = "http://opcfoundation.org/UA/"

_RUNS = {
    1: (
        "Boolean SByte Byte Int16 UInt16 Int32 UInt32 Int64 UInt64 Float Double String "
        "DateTime Guid ByteString XmlElement NodeId "
        "ExpandedNodeId StatusCode QualifiedName LocalizedText Structure DataValue "
        "BaseDataType DiagnosticInfo Number Integer UInteger "
        "Enumeration Image References NonHierarchicalReferences HierarchicalReferences "
        "HasChild Organizes HasEventSource "
        "HasModellingRule HasEncoding HasDescription HasTypeDefinition GeneratesEvent"
    ),
    44: (
        "Aggregates HasSubtype HasProperty HasComponent HasNotifier HasOrderedComponent Decimal"
        " FromState ToState HasCause HasEffect"
    ),
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
    84: "Root",
    85: "Objects",
    86: "Types",
    87: "Views",
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
    2372: "DiscreteItemType",
    2373: "TwoStateDiscreteType",
    2376: "MultiStateDiscreteType",
    2755: "StateVariableType",
    2760: "FiniteStateVariableType",
    2762: "TransitionVariableType",
    2767: "FiniteTransitionVariableType",
    2771: "FiniteStateMachineType",
    7594: "EnumValueType",
    11616: "NamespaceMetadataType",
    15318: "BaseAnalogType",
    17497: "AnalogUnitType",
    17570: "AnalogUnitRangeType",
    17604: "HasAddIn",
}

_AGGREGATES = (
    "44 46 47 49 56 129 131 14476 15112 15296 15297 16361 17604 18804 18805 24136 25262 25263 25264"
)
_GROUPS = "33 34 35 36 48 14936 16362 19815 19845 25238 25254 25256 25345 32059"
AGGREGATING = frozenset((UA, f"i={number}") for number in _AGGREGATES.split())
"""Reference types of a whole to its parts: Aggregates and its subtypes. A part's browse name is
unique in its whole."""
GROUPING = frozenset((UA, f"i={number}") for number in _GROUPS.split())
"""The other hierarchical reference types from one instance to another."""

_COMPONENTS = (
    "A AckedState Acknowledge ActiveState AddApplication AddCertificate AddComment AddEndpoint "
    "AddIdentity Applications ApplicationsExclude AutoDelete AvailableStates "
    "AvailableTransitions AxisScaleType B BranchId C CartesianCoordinates CertificateTypes "
    "ClientProcessingTimeout ClientUserId Close CloseAndCommit CloseAndUpdate Comment "
    "ConditionClassId ConditionClassName ConditionName ConditionSubClassId "
    "ConditionSubClassName CreateDirectory CreateFile CurrentState DefaultAccessRestrictions "
    "DefaultApplicationGroup DefaultHttpsGroup DefaultInstanceBrowseName "
    "DefaultRolePermissions DefaultUserRolePermissions DefaultUserTokenGroup Definition "
    "Deletable Delete Denominator Deprecated Disable EURange EffectiveDisplayName "
    "EffectiveTransitionTime Enable EnabledState Endpoints EndpointsExclude EngineeringUnits "
    "EnumDictionaryEntries EnumStrings EnumValues EventId EventType FalseState FileSystem "
    "FindAlias GenerateFileForRead GenerateFileForWrite GetPosition HighHighLimit HighLimit Id "
    "Identities InputArguments InputNode InstrumentRange IsNamespaceSubset LastSeverity "
    "LastTransition LastUpdateTime LimitState LowLimit LowLowLimit Message ModelVersion "
    "MoveOrCopy Name NamespacePublicationDate NamespaceUri NamespaceVersion NodeVersion "
    "NormalState Number NumberInList Numerator Open OpenCount OpenWithMasks OptionSetValues "
    "OrderedObject Orientation OutputArguments Quality Read ReceiveTime RecycleCount "
    "RemoveApplication RemoveCertificate RemoveEndpoint RemoveIdentity Retain SetPosition "
    "SetpointNode Severity Size SourceName SourceNode SourceTimestamp StateNumber "
    "StaticNodeIdTypes StaticNumericNodeIdRange StaticStringNodeIdPattern "
    "SuppressedOrShelved Time Title TransitionNumber TransitionTime TrueState TrustList "
    "UserWritable ValueAsDictionaryEntries ValueAsText ValuePrecision Writable Write X "
    "XAxisDefinition Y Z"
)
COMPONENT_NAMES = frozenset(_COMPONENTS.split())
"""Components and properties of OPC UA's own types that other specifications use. Their browse names
have the namespace index 0, which a node set may leave out."""

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
"""Data types of OPC UA with literals as values, and the datatype of these literals."""

_UNITS = (
    "C62:UNITLESS P1:PERCENT 59:PPM KEL:K CEL:DEG_C FAH:DEG_F F11:K-PER-MIN PAL:PA A97:HectoPA "
    "KPA:KiloPA MPA:MegaPA BAR:BAR MBR:MilliBAR PS:PSI ATM:ATM SEC:SEC C26:MilliSEC MIN:MIN "
    "HUR:HR DAY:DAY HTZ:HZ KHZ:KiloHZ C97:PER-SEC C94:PER-MIN H10:PER-HR M46:REV-PER-MIN "
    "RPM:REV-PER-MIN 2A:RAD-PER-SEC DD:DEG C81:RAD MTR:M MMT:MilliM 4H:MicroM CMT:CentiM "
    "KMT:KiloM MTK:M2 MMK:MilliM2 MTQ:M3 LTR:L MLT:MilliL MTS:M-PER-SEC 2X:M-PER-MIN "
    "KMH:KiloM-PER-HR C16:MilliM-PER-SEC H81:MilliM-PER-MIN MSK:M-PER-SEC2 KGM:KiloGM GRM:GM "
    "MGM:MilliGM TNE:TONNE KGS:KiloGM-PER-SEC F31:KiloGM-PER-MIN E93:KiloGM-PER-HR "
    "E18:TONNE-PER-HR KMQ:KiloGM-PER-M3 GL:GM-PER-L M1:MilliGM-PER-L MQS:M3-PER-SEC "
    "MQH:M3-PER-HR L2:L-PER-MIN E32:L-PER-HR NEW:N B47:KiloN NU:N-M B48:KiloN-M JOU:J KJO:KiloJ "
    "3B:MegaJ WHR:W-HR KWH:KiloW-HR WTT:W KWT:KiloW MAW:MegaW AMP:A 4K:MilliA VLT:V 2Z:MilliV "
    "KVT:KiloV OHM:OHM SIE:S LUX:LUX 2N:DeciB C65:PA-SEC D54:W-PER-M2 D53:W-PER-M-K "
    "B42:KiloJ-PER-KiloGM C34:MOL C38:MOL-PER-L Q30:PH"
)
UNIT_CODES: dict[str, str] = dict(pair.split(":") for pair in _UNITS.split())
"""Codes of UN/ECE Recommendation 20 and the names of QUDT for the same units."""


def unit_code(unit_id: int) -> str:
    """Return the UN/ECE code in the UnitId of an EUInformation (OPC 10000-8, 5.6.3).

    The bytes of the number are the characters of the code.

    Examples:
        >>> unit_code(4408652)
        'CEL'
    """
    return unit_id.to_bytes(4, "big").lstrip(b"\0").decode("latin-1")
