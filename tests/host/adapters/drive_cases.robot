*** Settings ***
Documentation   Verdicts on a capture, and how they end a test (test_robot_library.py).
Library         wattbell.adapters.robot_library.RigKeywords    virtual=intel-660p-1tb


*** Test Cases ***
Before Any Judgement
    No Verdict Should Fail

As Expected
    Judge    ${CAPTURE}    requirements=${SETS}/mixed.toml
    Verdict Should Be    mixed/R-0    pass
    Verdict Should Be    mixed/R-1    fail
    Verdict Should Be    mixed/R-2    not measured

Not As Expected
    Judge    ${CAPTURE}    requirements=${SETS}/mixed.toml
    Verdict Should Be    mixed/R-1    pass

A Mistyped Verdict
    Verdict Should Be    mixed/R-1    passed

A Mistyped Requirement
    Verdict Should Be    mixed/R1    pass

With A Parameter
    Judge    ${CAPTURE}    requirements=${SETS}/mixed.toml    only=mixed/R-2    parameters=cap=4
    No Verdict Should Fail

One Fails
    Judge    ${CAPTURE}    requirements=${SETS}/mixed.toml
    No Verdict Should Fail

One Is Not Measured
    Judge    ${CAPTURE}    requirements=${SETS}/unmeasured.toml
    No Verdict Should Fail

One Is Not Measured And That Fails
    Judge    ${CAPTURE}    requirements=${SETS}/unmeasured.toml
    No Verdict Should Fail    not_measured=fail

A Conditional Pass
    Judge    ${CAPTURE}    requirements=${SETS}/marginal.toml
    No Verdict Should Fail

The Drive
    ${model} =    Drive Model
    Should Be Equal    ${model}    INTEL SSDPEKNW010T8
