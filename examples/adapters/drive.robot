*** Settings ***
Documentation   A drive against a lab's requirements: robot --variable DRIVE:intel-660p-1tb drive.robot
Library         wattbell.adapters.robot_library.RigKeywords    virtual=${DRIVE}
Suite Setup     Measure And Judge


*** Variables ***
${DRIVE}            intel-660p-1tb
${REQUIREMENTS}     ${CURDIR}/lab.toml


*** Test Cases ***
The Drive Draws No More Than The Laptop Gives
    Verdict Should Be    lab/L-1    pass

The Drive Is Frugal When Idle
    Verdict Should Be    lab/L-2    pass

The Whole Set Is Met
    No Verdict Should Fail    not_measured=fail


*** Keywords ***
Measure And Judge
    ${run} =    Run Suite    quick    idle    idle-wake-up
    Judge    ${run}    requirements=${REQUIREMENTS}
