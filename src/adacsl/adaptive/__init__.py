"""AdaCSL itself: the controller and the held-out samples it measures on. numpy only."""
